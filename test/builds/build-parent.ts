import { begin } from "./fixtures.ts";

/** A process that starts a build and waits, to be killed by its test. Arguments: directory, source as JSON. */
const [dir = "", source = ""] = process.argv.slice(2);
const { build } = begin(dir, JSON.parse(source));
process.send?.({ pid: build.pid });
