import { cp, readFile, rm, writeFile } from "node:fs/promises";
import path from "node:path";

/** Adds the template `refunds` to a directory of templates: the hello agent with the graph of `refund-agent.mjs`. */
export async function addRefundTemplate(templates: string): Promise<void> {
  const at = path.join(templates, "refunds");
  await cp("templates/langgraph-js-hello", at, { recursive: true });
  for (const name of ["src/agent.ts", "tsconfig.json"]) await rm(path.join(at, name));
  await cp("test/console/refund-agent.mjs", path.join(at, "src/agent.mjs"));
  await change(path.join(at, "template.json"), (text) =>
    text.replace(/"id": "[^"]*"/, '"id": "refunds"').replace(/"name": "[^"]*"/, '"name": "Refund agent"'),
  );
  await change(path.join(at, "langgraph.json"), (text) => text.replace("agent.ts:", "agent.mjs:"));
}

async function change(file: string, edit: (text: string) => string): Promise<void> {
  await writeFile(file, edit(await readFile(file, "utf8")));
}
