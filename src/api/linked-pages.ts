import { errors } from "../contract/error.ts";
import { htmlText, pagePolicy, pageStyle } from "./page.ts";
import type { Api } from "./route.ts";
import { readUuid } from "./uuid-text.ts";

/**
 * The addresses of a console that public clients print (contract 1.1). Whoever opens one in a browser has sent no key, so
 * the page tells nothing of the deployment but how to ask for it.
 */
export function addLinkedPages({ server }: Api): void {
  const config = { operation: "getLinkedPage" };
  server.get<{ Params: { id: string } }>(
    "/o/:tenant_id/host/deployments/:id",
    { config },
    async ({ params }, reply) => {
      const id = readUuid(params.id);
      if (!("uuid" in id)) throw errors.routeNotFound();
      reply.header("content-security-policy", pagePolicy).type("text/html; charset=utf-8");
      return linkedPage(`Deployment ${id.uuid}`, [`status ${id.uuid}`, `logs ${id.uuid}`, `why ${id.uuid}`]);
    },
  );
  server.get("/host/deployments", { config }, async (_request, reply) => {
    reply.header("content-security-policy", pagePolicy).type("text/html; charset=utf-8");
    return linkedPage("Deployments", ["list"]);
  });
}

function linkedPage(title: string, commands: string[]): string {
  const lines = commands.map((command) => `npx pierhead ${command}`).join("\n");
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>${htmlText(title)}</title><style>${pageStyle}</style></head><body>
<h1>${htmlText(title)}</h1><p>Ask for it with your API key, in a clone of Pierhead:</p><pre><code>${htmlText(lines)}</code></pre>
</body></html>
`;
}
