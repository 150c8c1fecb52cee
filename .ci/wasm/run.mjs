// Runs a WASI program on this process's stdin and stdout, with its exit status:
//
//   node --no-warnings run.mjs PROGRAM.wasm [ARG...] <FILE
//
// stdin must be a file: Go makes it non-blocking on WASI, and Node cannot wait for
// a non-blocking pipe.

import { readFileSync } from 'node:fs';
import { WASI } from 'node:wasi';

const args = process.argv.slice(2);
const wasi = new WASI({ version: 'preview1', args, returnOnExit: true });
const { instance } = await WebAssembly.instantiate(readFileSync(args[0]), wasi.getImportObject());
process.exitCode = wasi.start(instance);
