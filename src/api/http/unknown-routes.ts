import { errors } from "../../contract/error.ts";
import type { Api } from "./route.ts";

/** Answers 405 for a path that exists under another verb, and 404 for any other unknown route (contract 1.4). */
export function refuseUnknownRoutes(api: Api): void {
  const known: { path: RegExp; verb: string }[] = [];
  api.server.addHook("onReady", async () => {
    for (const { path, verb } of api.registered) {
      known.push({ path: new RegExp(`^${path.replaceAll(/\{\w+\}/g, "[^/]+")}$`), verb });
    }
  });
  api.server.addHook("onRequest", async (request) => {
    if (!request.is404) return;
    const path = request.url.split("?", 1)[0] ?? "";
    const verbs = known.filter((one) => one.path.test(path)).map((one) => one.verb);
    if (verbs.length === 0) throw errors.routeNotFound();
    throw errors.methodNotAllowed(verbs.includes("GET") ? [...verbs, "HEAD"] : verbs);
  });
}
