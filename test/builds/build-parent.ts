import { begin } from "./fixtures.ts";

/** Starts a build and waits until its test kills this process. Arguments: directory, source as JSON. */
const [dir = "", source = ""] = process.argv.slice(2);
const { build } = begin(dir, JSON.parse(source));
process.send?.({ pid: build.pid });
