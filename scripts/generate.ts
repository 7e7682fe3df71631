import { writeFileSync } from "node:fs";
import path from "node:path";
import { openapiDocument } from "../src/api/documents/openapi.ts";
import { cliReference } from "../src/cli/reference.ts";
import { buildRules, gatewayRules, listenerRules, programRules } from "../src/compute/kubernetes/install/role.ts";
import { operations } from "../src/contract/operations.ts";
import { configurationReference } from "../src/server/config-reference.ts";
import { metricsReference } from "../src/server/metrics-reference.ts";

/** npm run generate: writes the files that derive from the code. A guard fails when one of them is out of date. */
const generated: Record<string, () => string | Promise<string>> = {
  "docs/reference/openapi.json": () => `${JSON.stringify(openapiDocument(Object.values(operations)), null, 2)}\n`,
  "docs/reference/cli.md": cliReference,
  "docs/reference/configuration.md": configurationReference,
  "docs/reference/metrics.md": metricsReference,
  "deploy/helm/pierhead-listener/files/rules.json": () => `${JSON.stringify(listenerRules, null, 2)}\n`,
  "deploy/helm/pierhead-listener/files/gateway-rules.json": () => `${JSON.stringify(gatewayRules, null, 2)}\n`,
  "deploy/helm/pierhead-listener/files/build-rules.json": () => `${JSON.stringify(buildRules, null, 2)}\n`,
  "deploy/helm/pierhead-listener/files/program-rules.json": () => `${JSON.stringify(programRules, null, 2)}\n`,
};

for (const [file, make] of Object.entries(generated)) {
  writeFileSync(path.join(import.meta.dirname, "..", file), await make());
  console.log(`wrote ${file}`);
}
