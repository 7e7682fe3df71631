import { fileURLToPath } from "node:url";
import type { HonoApp } from "./stock.ts";

/** The stock server mounts the app that the `http.app` option names by file and export, before its own routes. */
export const appFile = `${fileURLToPath(import.meta.url)}:app`;

/** The app that the server imports from this file. Set before the server starts. */
export let app: HonoApp | undefined;

export function setApp(made: HonoApp): void {
  app = made;
}
