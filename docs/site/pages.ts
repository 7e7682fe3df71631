import { readdirSync, readFileSync } from "node:fs";
import { copyFile, mkdir } from "node:fs/promises";
import path from "node:path";
import type { MarkdownRenderer } from "vitepress";

/** Returns the pages of a directory for the sidebar, with their headings as texts, in the order of the file names. */
export function pagesIn(root: string, directory: string): { text: string; link: string }[] {
  return readdirSync(path.join(root, directory))
    .filter((file) => file.endsWith(".md"))
    .sort((one, other) => one.localeCompare(other, "en", { numeric: true }))
    .map((file) => {
      const text = readFileSync(path.join(root, directory, file), "utf8");
      const heading = /^# (.+)$/m.exec(text)?.[1] ?? file;
      const link = `/${path.posix.join(directory, file)}`.replace(/(?:README)?\.md$/, "");
      return { text: heading.replaceAll("`", ""), link };
    });
}

/** Writes beside each page its Markdown, which language models read better, and `llms.txt`, which lists the pages for them. */
export async function writeTwins(root: string, outDir: string, pages: readonly string[]): Promise<void> {
  for (const page of pages) {
    const twin = path.join(outDir, page.replace(/README\.md$/, "index.md"));
    await mkdir(path.dirname(twin), { recursive: true });
    await copyFile(path.join(root, page), twin);
  }
  await copyFile(path.join(root, "docs/llms.txt"), path.join(outDir, "docs/llms.txt"));
  await copyFile(path.join(root, "docs/reference/openapi.json"), path.join(outDir, "docs/reference/openapi.json"));
}

/** Leads links to a README to the page that the site makes of it. */
export function linkToIndex(markdown: MarkdownRenderer): void {
  markdown.core.ruler.push("link-to-index", ({ tokens }) => {
    for (const token of tokens.flatMap(({ children }) => children ?? [])) {
      const href = token.attrGet("href");
      if (href !== null) token.attrSet("href", href.replace(/(^|\/)README\.md(?=#|$)/, "$1index.md"));
    }
  });
}
