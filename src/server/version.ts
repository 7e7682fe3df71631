import { readFileSync } from "node:fs";

/** Version of this program, read from its package.json. The path fits both src/ and dist/, which are equally deep. */
export const version: string = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")).version;
