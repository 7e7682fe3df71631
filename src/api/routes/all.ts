import type { Api } from "../route.ts";
import { addInfoRoutes } from "./info.ts";

/** Every operation of `contract/operations.ts` gets its handler here; a test compares the two. */
export function addRoutes(api: Api): void {
  addInfoRoutes(api);
}
