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
 * Progress as test_tool_with_progress tells it. Both TypeScript libraries drop what they
 * read in one piece with the answer, as happens when the machine is busy: the end may lack.
 */
export function progressed(seen) {
  assert.deepEqual(seen, [0, 50, 100].slice(0, seen.length));
}
