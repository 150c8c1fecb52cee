import assert from 'node:assert/strict';

/** Takes steps one after the other, with a line for each. */
export async function take(steps) {
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
 * that they read together with the response, as on a busy machine, so the last may be missing.
 */
export function progressed(seen) {
  assert.deepEqual(seen, [0, 50, 100].slice(0, seen.length));
}
