import { operations } from "../../contract/operations.ts";
import { pagePolicy } from "../http/page-style.ts";
import { mountOf } from "../http/path-prefixes.ts";
import { type Api, openRoute } from "../http/route.ts";
import { openapiDocument } from "./openapi.ts";
import { referencePage } from "./reference-page.ts";

/** Serves the description of the API: `/openapi.json` for programs, `/docs` and `/redoc` for people (contract 1.1). */
export function addDocuments(api: Api): void {
  const made = new Map<string, { document: object; page: string }>();
  const documentsAt = (prefix: string) => {
    let found = made.get(prefix);
    if (found === undefined) {
      const document = openapiDocument(api.registered, prefix);
      found = { document, page: referencePage(document, prefix) };
      made.set(prefix, found);
    }
    return found;
  };

  openRoute(api, operations.getOpenapi, ({ request }) => ({ ...documentsAt(mountOf(request.raw)).document }));
  for (const url of ["/docs", "/redoc"]) {
    api.server.get(url, { config: { operation: "getDocs" } }, async (request, reply) => {
      reply.header("content-security-policy", pagePolicy).type("text/html; charset=utf-8");
      return documentsAt(mountOf(request.raw)).page;
    });
  }
}
