import { operations } from "../../contract/operations.ts";
import { pagePolicy } from "../http/page-style.ts";
import { mountOf } from "../http/path-prefixes.ts";
import { type Api, openRoute } from "../http/route.ts";
import { openapiDocument } from "./openapi.ts";
import { referencePage } from "./reference-page.ts";
import { answerWith, type StaticFile, staticFile } from "./static-file.ts";

/**
 * Serves the description of the API: `/openapi.json` for programs, `/docs` and `/redoc` for people (contract 1.1). Both are made once,
 * because anyone may ask for them: encoding the document takes 9 ms, in which the server answers no other request.
 */
export function addDocuments(api: Api): void {
  const made = new Map<string, Promise<Record<"document" | "page", StaticFile>>>();
  const documentsAt = (prefix: string) => {
    let found = made.get(prefix);
    if (found === undefined) {
      found = makeDocuments(api, prefix);
      made.set(prefix, found);
    }
    return found;
  };

  openRoute(api, operations.getOpenapi, async ({ request, takeOver }) => {
    const { document } = await documentsAt(mountOf(request.raw));
    const { status, headers, bytes } = answerWith(request, document);
    takeOver({ ...headers, "cache-control": "no-cache" }, status).end(bytes);
    return {};
  });
  for (const url of ["/docs", "/redoc"]) {
    api.server.get(url, { config: { operation: "getDocs" } }, async (request, reply) => {
      const { status, headers, bytes } = answerWith(request, (await documentsAt(mountOf(request.raw))).page);
      reply.headers({ ...headers, "content-security-policy": pagePolicy, "cache-control": "no-cache" });
      return reply.code(status).send(bytes);
    });
  }
}

async function makeDocuments({ registered }: Api, prefix: string) {
  const document = openapiDocument(registered, prefix);
  const page = referencePage(document, prefix);
  return {
    document: await staticFile(Buffer.from(JSON.stringify(document)), "application/json; charset=utf-8"),
    page: await staticFile(Buffer.from(page), "text/html; charset=utf-8"),
  };
}
