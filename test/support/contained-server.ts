import { enterContained } from "./contained-process.ts";
import { startPostgresServer } from "./postgres-server.ts";

// node test/support/contained-server.ts SIZE [--postgres] ARGS: runs `pierhead ARGS` in its own namespaces, see contained-process.ts, with
// a PostgreSQL server on the same file system if requested.
const [size = "", ...args] = process.argv.slice(2);
enterContained(size);
if (args[0] === "--postgres") {
  args.shift();
  process.env["DATABASE_URL"] = (await startPostgresServer({ durable: true }))?.url;
}
// Without this variable the program restarts itself to set it, and would restart this file.
process.env["MALLOC_TRIM_THRESHOLD_"] ??= "";
process.argv.splice(2, Number.POSITIVE_INFINITY, ...args);
await import("../../src/main.ts");
