import assert from 'node:assert/strict';

/** Runs steps in order and prints a line for each. */
export async function run(steps) {
  for (const [name, step] of Object.entries(steps)) {
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
