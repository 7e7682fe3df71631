import type { DeploymentDebug } from "../../contract/administration/debug.ts";
import type { Deployment } from "../../contract/deployments/deployment.ts";
import type { Session } from "../session.ts";
import { maskSecrets } from "../terminal/mask.ts";
import { harmless } from "../terminal/terminal.ts";
import { age, columns } from "../terminal/text.ts";
import { findDeployment } from "./find-deployment.ts";
import { healthLines, healthText } from "./health.ts";

/** Shows the state of a deployment, the next step of the server, and the reason for it. */
export async function why(session: Session, [name = ""]: string[]): Promise<void> {
  const client = await session.client();
  const deployment = await findDeployment(session, name);
  const debug = await client.debugDeployment({ deployment_id: deployment.id }, { signal: session.signal });
  session.answer(maskSecrets(debug), () => render(session, deployment, debug));
}

function render({ terminal }: Session, deployment: Deployment, debug: DeploymentDebug): string {
  const { paintOut } = terminal;
  const { kind, because } = debug.next_step;
  const passes = debug.outcomes.map((pass) => [
    `  ${age(pass.at)} ago`,
    pass.kind,
    `${Math.round(pass.duration_ms)} ms`,
    harmless(pass.because),
  ]);
  const sections: [string, string][] = [
    ["Next step", `  ${kind}${because === "" ? "" : `: ${harmless(because)}`}`],
    ["Desired", facts(debug.desired)],
    ["Observed", facts(debug.observed)],
    ["Assignment", facts(debug.assignment)],
    ["Lease", facts(debug.lease)],
    ["Latest passes", passes.length === 0 ? "  none yet" : columns(passes)],
  ];
  const health = healthText(deployment);
  const title = `${paintOut("bold", harmless(deployment.name))}  ${paintOut(health.style, health.text)}`;
  return [
    title,
    ...healthLines(deployment, paintOut),
    ...sections.flatMap(([head, text]) => ["", paintOut("dim", head), text]),
  ].join("\n");
}

/** Formats one field per line, with nested fields indented below their name. */
function facts(record: Record<string, unknown> | null): string {
  if (record === null) return "  none";
  const lines = describe(maskSecrets(record), "  ");
  return lines.length === 0 ? "  empty" : lines.join("\n");
}

function describe(value: object, indent: string): string[] {
  return Object.entries(value).flatMap(([name, inner]: [string, unknown]) => {
    const label = Array.isArray(value) ? `${indent}-` : `${indent}${name}:`;
    if (typeof inner !== "object" || inner === null) return [`${label} ${harmless(String(inner ?? "none"))}`];
    const nested = describe(inner, `${indent}  `);
    return nested.length === 0 ? [`${label} none`] : [label, ...nested];
  });
}
