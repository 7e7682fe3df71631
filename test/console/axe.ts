import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import type { Page } from "playwright-core";

interface Violation {
  id: string;
  impact: string;
  nodes: { html: string; failureSummary: string }[];
}

const source = readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Rules of WCAG 2.2 A and AA that the page breaks seriously: name, and where. The policy of the page stays in force. */
export async function seriousFindings(page: Page): Promise<string[]> {
  // Evaluated by the debugger, not loaded by the page: a page that loads scripts of others is not what we test.
  await page.evaluate(await source);
  const violations = await page.evaluate(async () => {
    const { axe } = globalThis as unknown as { axe: { run(options: object): Promise<{ violations: Violation[] }> } };
    const tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
    return (await axe.run({ runOnly: { type: "tag", values: tags }, resultTypes: ["violations"] })).violations;
  });
  return violations
    .filter(({ impact }) => impact === "serious" || impact === "critical")
    .flatMap(({ id, nodes }) =>
      nodes.map(({ html, failureSummary }) => `${id}: ${html.slice(0, 200)} ${failureSummary}`),
    );
}
