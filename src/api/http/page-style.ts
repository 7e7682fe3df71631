import { createHash } from "node:crypto";

/** Style sheet of the pages that the API itself serves. */
export const pageStyle = `
:root { color-scheme: light dark; --line: #8884; --soft: #8882; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 62rem; padding: 1rem; }
h1 small { font-weight: normal; opacity: .6; }
nav a { margin-right: .8rem; }
details { border: 1px solid var(--line); border-radius: 6px; margin: .5rem 0; padding: .4rem .8rem; }
summary { cursor: pointer; }
summary code { font-weight: 600; }
summary .verb { display: inline-block; min-width: 4.2rem; }
table { border-collapse: collapse; margin: .5rem 0 1rem; width: 100%; }
th, td { border-top: 1px solid var(--line); padding: .3rem .5rem; text-align: left; vertical-align: top; }
code { background: var(--soft); border-radius: 4px; font-size: .92em; padding: .05rem .25rem; }
pre { background: var(--soft); border-radius: 4px; max-height: 16rem; overflow: auto; padding: .4rem .6rem; }
h4 { margin: .8rem 0 .2rem; }
.note { opacity: .7; }
`;

const styleDigest = createHash("sha256").update(pageStyle).digest("base64");

/** Content security policy of those pages: no script, nothing loaded, and the style sheet allowed by its digest. */
export const pagePolicy = `default-src 'none'; style-src 'sha256-${styleDigest}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`;

/** Escapes a text for any position in an HTML page. */
export function htmlText(value: string): string {
  return value.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
