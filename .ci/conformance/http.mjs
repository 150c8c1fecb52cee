// Starts a server that speaks HTTP: it is run with -http ADDRESS, prints its URL, and ends with
// status 0 after SIGTERM.

import { spawn } from 'node:child_process';

/** Returns the URL of the server, and a function that ends it. */
export function startHTTP([program, ...args], stderr, env) {
  return new Promise((resolve, reject) => {
    const child = spawn(program, [...args, '-http', '127.0.0.1:0'], { env: { ...process.env, ...env }, stdio: ['ignore', 'pipe', stderr] });
    const exited = new Promise((done) => child.once('close', (code, signal) => done(signal ?? code)));
    child.once('error', reject);
    child.stdout.once('data', (url) => resolve({ url: String(url).trim(), close }));
    exited.then((status) => reject(new Error(`${program} ended (${status})`)));
    async function close() {
      child.kill('SIGTERM');
      setTimeout(() => child.kill('SIGKILL'), 10_000).unref();
      const status = await exited;
      if (status !== 0) throw new Error(`${program} ended with ${status} after SIGTERM`);
    }
  });
}
