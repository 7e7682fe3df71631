import { settings } from "./config.ts";
import { listenerSettings } from "./listener-config.ts";
import type { Setting } from "./setting.ts";

/** Returns docs/reference/configuration.md, from the tables that read the environment. */
export function configurationReference(): string {
  return `# Configuration

Pierhead reads the environment once, at start. \`npm run generate\` writes this page from \`src/server/config.ts\`.

${tableOf(settings)}

## \`pierhead listener\`

A listener in a process of its own reads these variables.

${tableOf(listenerSettings)}
`;
}

function tableOf(table: Record<string, Setting<unknown>>): string {
  const rows = Object.values(table).map(({ name, fallback, meaning }) => `| \`${name}\` | ${fallback} | ${meaning} |`);
  return ["| Variable | Default | Meaning |", "|---|---|---|", ...rows].join("\n");
}
