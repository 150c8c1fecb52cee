import assert from 'node:assert/strict';

/**
 * Runs steps in order and prints a line for each. The environment variable LEFT_OUT holds the names
 * of the steps that are not run, and WHY the reason.
 */
export async function run(steps) {
  const { LEFT_OUT = '', WHY } = process.env;
  for (const [name, step] of Object.entries(steps)) {
    if (LEFT_OUT.split(' ').includes(name)) {
      console.log(`not ${name}: ${WHY}`);
      continue;
    }
    try {
      await step();
      console.log(`ok ${name}`);
    } catch (e) {
      console.log(`FAILED ${name}: ${String(e.stack ?? e).replaceAll('\n', ' ')}`);
    }
  }
}

/**
 * Checks the progress of test_tool_with_progress. Both TypeScript libraries drop notifications
 * that they read together with the response, so on a busy machine the last ones may be missing.
 */
export function checkProgress(seen) {
  assert.deepEqual(seen, [0, 50, 100].slice(0, seen.length));
}
