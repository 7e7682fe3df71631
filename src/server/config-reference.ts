import { settings } from "./config.ts";
import { listenerSettings } from "./listener-config.ts";
import type { Setting } from "./setting.ts";

/** docs/reference/configuration.md, from the table that reads the environment. */
export function configurationReference(): string {
  return `# Configuration

Read from the environment once, at start. Written by \`npm run generate\` from \`src/server/config.ts\`.

${tableOf(settings)}

## \`pierhead listener\`

A data plane by itself reads these.

${tableOf(listenerSettings)}
`;
}

function tableOf(table: Record<string, Setting<unknown>>): string {
  const rows = Object.values(table).map(({ name, fallback, meaning }) => `| \`${name}\` | ${fallback} | ${meaning} |`);
  return ["| Variable | Default | Meaning |", "|---|---|---|", ...rows].join("\n");
}
