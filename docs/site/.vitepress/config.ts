import { readFileSync } from "node:fs";
import path from "node:path";
import { defineConfig } from "vitepress";
import { copyFiles, homePage, linkToIndex, pagesIn, writeApiReference, writeTwins } from "../pages.ts";

const root = path.resolve(import.meta.dirname, "../../..");
const { version } = JSON.parse(readFileSync(path.join(root, "package.json"), "utf8")) as { version: string };
const section = (text: string, directory: string, isCollapsed = false) => ({
  text,
  collapsed: isCollapsed,
  items: pagesIn(root, directory),
});

/** The theme shows a logo beside the title of the first page. A picture of the console needs more room to be read. */
const widePicture = `
.VPHero .image-container { width: 100%; height: auto; transform: none; display: block; }
.VPHero .image-src { position: static; transform: none; max-width: 100%; max-height: none; border-radius: 8px; box-shadow: 0 0 0 1px var(--vp-c-divider); }
.VPHero.has-image .image { margin: 0 auto 32px; min-height: 0; }
@media (min-width: 960px) {
  .VPHero.has-image .main { width: 42%; }
  .VPHero.has-image .image { width: 58%; margin: 0; padding-left: 32px; }
}`;

/** The documentation as a site: `npm run docs`. Everything in it, search included, comes from the site itself. */
// biome-ignore lint/style/noDefaultExport: VitePress reads the default export.
export default defineConfig({
  title: "Pierhead",
  description: "An open, self-hosted control plane for LangGraph and every other agent server.",
  head: [["style", {}, widePicture]],
  srcDir: root,
  // `**` of a pattern also enters node_modules, which is excluded by default.
  srcExclude: [
    "{.ci,console,examples,src,templates,test,dist,deploy}/**",
    "README.md",
    "docs/site/{dist,node_modules}/**",
    "docs/skill/**",
    "engines/*/{src,example}/**",
  ],
  outDir: path.join(root, "docs/site/dist"),
  cacheDir: path.join(root, "docs/site/node_modules/.vitepress"),
  rewrites: { [homePage]: "index.md", ":path(.+)/README.md": ":path/index.md" },
  cleanUrls: true,
  // Sources are in the repository and not on the site. `copyFiles` brings files that pages refer to.
  ignoreDeadLinks: [/\/(?:console|deploy|examples|src|skill|templates|test)(?:\/|$)/, /\/LICENSE$/],
  markdown: { html: false, config: linkToIndex },
  // The pages lie above the packages of the site, where nothing finds them.
  vite: { resolve: { alias: [{ find: /^vue(?=\/|$)/, replacement: path.join(root, "docs/site/node_modules/vue") }] } },
  buildEnd: async ({ outDir, pages }) => {
    await writeTwins(root, outDir, pages);
    await copyFiles(root, outDir);
    await writeApiReference(root, outDir);
  },
  themeConfig: {
    search: { provider: "local" },
    outline: [2, 3],
    nav: [
      { text: "Start", link: "/docs/start/laptop" },
      { text: "Contents", link: "/docs/" },
      { text: "Frameworks", link: "/docs/frameworks/" },
      { text: "Command line", link: "/docs/reference/cli" },
      // A page of its own, which the router of the site does not know.
      { text: "API", link: "/docs/reference/api.html", target: "_self" },
      // Each directory has the pages of one version.
      process.env["PIERHEAD_DOCS_VERSIONS"] === undefined
        ? { text: `Version ${version}`, link: "/CHANGELOG" }
        : {
            text: `Version ${version}`,
            items: [
              { text: "Changes", link: "/CHANGELOG" },
              { text: "Other versions", link: "/versions.html", target: "_self" },
            ],
          },
    ],
    sidebar: [
      section("Start", "docs/start"),
      section("Frameworks", "docs/frameworks"),
      section("Guides", "docs/guides"),
      section("Reference", "docs/reference"),
      section("API contract", "docs/reference/contract", true),
      section("Explanation", "docs/explanation"),
      section("Decisions", "docs/decisions", true),
    ],
  },
});
