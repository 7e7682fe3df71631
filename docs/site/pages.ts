import { readdirSync, readFileSync } from "node:fs";
import { copyFile, cp, mkdir, readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import type { MarkdownRenderer } from "vitepress";
import { referencePage } from "../../src/api/documents/reference-page.ts";
import { withLinksToIndex } from "./twin-links.ts";

/** Returns the pages of a directory for the sidebar, with their headings as texts: the index first, then by file name. */
export function pagesIn(root: string, directory: string): { text: string; link: string }[] {
  return readdirSync(path.join(root, directory))
    .filter((file) => file.endsWith(".md"))
    .sort((one, other) => nameOf(one).localeCompare(nameOf(other), "en", { numeric: true }))
    .map((file) => {
      const text = readFileSync(path.join(root, directory, file), "utf8");
      const heading = file === "README.md" ? "Overview" : (/^# (.+)$/m.exec(text)?.[1] ?? file);
      const link = `/${path.posix.join(directory, file)}`.replace(/(?:README)?\.md$/, "");
      return { text: heading.replaceAll("`", ""), link };
    });
}

/** The empty name of an index is the first of all. */
const nameOf = (file: string) => file.replace(/^README\.md$/, "");

/** The first page of the site. */
export const homePage = "docs/site/home.md";

/** Writes beside each page its Markdown, which language models read better, and `llms.txt`, which lists the pages for them. */
export async function writeTwins(root: string, outDir: string, pages: readonly string[]): Promise<void> {
  for (const page of pages) {
    const twin = path.join(outDir, page === homePage ? "index.md" : page.replace(/README\.md$/, "index.md"));
    await mkdir(path.dirname(twin), { recursive: true });
    const text = withLinksToIndex(await readFile(path.join(root, page), "utf8"), page, pages);
    await writeFile(twin, page === homePage ? text.replaceAll("](../", "](docs/") : text);
  }
  await copyFile(path.join(root, "docs/llms.txt"), path.join(outDir, "docs/llms.txt"));
  await copyFile(path.join(root, "docs/reference/openapi.json"), path.join(outDir, "docs/reference/openapi.json"));
}

/** Copies what pages tell readers to download: the site works for people without the repository. */
export async function copyFiles(root: string, outDir: string): Promise<void> {
  const files = ["deploy", "docs/images", "docs/skill", "examples/account-agent", "examples/terraform"];
  for (const file of files) await cp(path.join(root, file), path.join(outDir, file), { recursive: true });
}

/** Writes the API reference that a server shows at /docs. */
export async function writeApiReference(root: string, outDir: string): Promise<void> {
  const openapi = JSON.parse(await readFile(path.join(root, "docs/reference/openapi.json"), "utf8"));
  await writeFile(path.join(outDir, "docs/reference/api.html"), referencePage(openapi, "", "openapi.json"));
}

/** Leads links to a README to the page that the site makes of it, and those of the first page from the root of the site. */
export function linkToIndex(markdown: MarkdownRenderer): void {
  markdown.core.ruler.push("link-to-index", ({ tokens, env }) => {
    const isHome = (env as { relativePath?: string }).relativePath === "index.md";
    for (const token of tokens.flatMap(({ children }) => children ?? [])) {
      const href = token.attrGet("href");
      if (href === null) continue;
      const index = href.replace(/(^|\/)README\.md(?=#|$)/, "$1index.md");
      token.attrSet("href", isHome ? index.replace(/^\.\.\//, "docs/") : index);
    }
  });
}
