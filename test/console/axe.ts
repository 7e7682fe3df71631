import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import type { Page } from "playwright-core";

interface Violation {
  id: string;
  nodes: { html: string; failureSummary: string }[];
}

const source = readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Returns the violations of WCAG 2.2 A and AA and of best practices on the page. The page's content security policy stays in force. */
export async function axeFindings(page: Page): Promise<string[]> {
  // The debugger evaluates the script. The page itself must not load foreign scripts.
  await page.evaluate(await source);
  const violations = await page.evaluate(async () => {
    const { axe } = globalThis as unknown as { axe: { run(options: object): Promise<{ violations: Violation[] }> } };
    const tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
    return (await axe.run({ runOnly: { type: "tag", values: tags }, resultTypes: ["violations"] })).violations;
  });
  return violations.flatMap(({ id, nodes }) =>
    nodes.map(({ html, failureSummary }) => `${id}: ${html.slice(0, 200)} ${failureSummary}`),
  );
}
