import { readFileSync } from "node:fs";

/** Version of this program, from the package it is part of; src/ and dist/ lie equally deep. */
export const version: string = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8")).version;
