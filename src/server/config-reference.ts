import { clusterGatewaySettings } from "./cluster-gateway-config.ts";
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

## \`pierhead listener gateway\`

A replica of the gateway in a Kubernetes cluster reads these variables. The chart sets them.

${tableOf(clusterGatewaySettings)}
`;
}

function tableOf(table: Record<string, Setting<unknown>>): string {
  const rows = Object.values(table).map(({ name, fallback, meaning }) => `| \`${name}\` | ${fallback} | ${meaning} |`);
  return ["| Variable | Default | Meaning |", "|---|---|---|", ...rows].join("\n");
}
