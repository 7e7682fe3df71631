import { enterContained } from "./contained-process.ts";
import { startPostgresServer } from "./postgres-server.ts";

// node test/support/contained-server.ts SIZE [--postgres] ARGS: `pierhead ARGS` in a world of its own, see contained.ts; with a
// PostgreSQL server on the same file system.
const [size = "", ...args] = process.argv.slice(2);
enterContained(size);
if (args[0] === "--postgres") {
  args.shift();
  process.env["DATABASE_URL"] = (await startPostgresServer({ durable: true }))?.url;
}
// Else the program would begin itself once more to have it set, and that is this file.
process.env["MALLOC_TRIM_THRESHOLD_"] ??= "";
process.argv.splice(2, Number.POSITIVE_INFINITY, ...args);
await import("../../src/main.ts");
