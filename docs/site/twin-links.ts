import path from "node:path";

/** Returns the Markdown of a page with its links to a README as links to `index.md`, which the site has in its place. */
export function withLinksToIndex(text: string, page: string, pages: readonly string[]): string {
  return text.replace(/\]\(([^)\s#:]*README\.md)(?=[#)])/g, (whole, link: string) => {
    const target = path.posix.join(path.posix.dirname(page), link);
    return pages.includes(target) ? `](${link.replace(/README\.md$/, "index.md")}` : whole;
  });
}
