import type { Deployment } from "../../contract/deployments/deployment.ts";
import { deploymentNameLengthMax } from "../../domain/limits.ts";
import { findByName, findDeployment } from "../deployments/find-deployment.ts";
import { CliFailure, usageFailure } from "../failure.ts";
import { createSession, type Session } from "../session.ts";
import { shellWord } from "../terminal/text.ts";

export interface MoveOptions {
  toContext?: string;
  toListener?: string;
  toWhere?: string[];
  toNamespace?: string;
  toIntegration?: string;
  as?: string;
  fromKubectl?: string;
  toKubectl?: string;
  continue?: boolean;
  finish?: boolean;
  back?: boolean;
  yes?: boolean;
  dryRun?: boolean;
  timeout: string;
}

/** Both ends of a move. The facts come from the servers, so that a second call finds what the first one did. */
export interface Sides {
  options: MoveOptions;
  from: Session;
  to: Session;
  source: Deployment;
  targetName: string;
  /** undefined: not created yet. */
  target: Deployment | undefined;
}

/**
 * Variable of the new deployment with the id of the old one. It is written with the deployment, so a move never takes a deployment
 * of someone else for its own.
 */
export const movedFrom = "PIERHEAD_MOVED_FROM";

export const targetNameOf = (name: string, { as, toContext }: MoveOptions): string => {
  if (as !== undefined) return as;
  return toContext === undefined ? `${name.slice(0, deploymentNameLengthMax - 2)}-2` : name;
};

export function openTarget(session: Session, { toContext }: MoveOptions): Session {
  if (toContext === undefined) return session;
  // Only what concerns the output: the address and the key belong to the other control plane.
  const { json, verbose, color } = session.options;
  const shown = {
    ...(json !== undefined && { json }),
    ...(verbose !== undefined && { verbose }),
    ...(color !== undefined && { color }),
  };
  return createSession(session.context, session.terminal, { ...shown, context: toContext });
}

/** @throws CliFailure if the name at the target belongs to another deployment */
export async function openSides(session: Session, name: string, options: MoveOptions): Promise<Sides> {
  const { toContext, toListener, toWhere } = options;
  if (
    toContext === undefined &&
    toListener === undefined &&
    toWhere === undefined &&
    !options.back &&
    !options.finish
  ) {
    throw usageFailure(
      "Where to?",
      "To another control plane: --to-context CONTEXT (pierhead context list)",
      "To another listener:      --to-listener LISTENER or --to-where KEY=VALUE",
    );
  }
  const to = openTarget(session, options);
  const source = await findDeployment(session, name);
  const targetName = targetNameOf(source.name, options);
  const target = await findByName(await to.client(), targetName, session.signal);
  if (target !== undefined && target.id === source.id) {
    throw usageFailure("The new deployment needs another name in the same control plane.", "Choose one: --as NAME");
  }
  if (target !== undefined && !isMovedFrom(target, source)) {
    throw new CliFailure(`${targetName} exists there, and it is not the result of a move of ${source.name}.`, {
      hints: ["Choose another name: --as NAME"],
    });
  }
  return { options, from: session, to, source, targetName, target };
}

const isMovedFrom = ({ secrets }: Deployment, { id }: Deployment) =>
  secrets.some(({ name, value }) => name === movedFrom && value === id);

/** Returns the call of this command with other last options. */
export function commandFor({ from, source: { name }, options }: Sides, last = ""): string {
  const given = [
    ["--context", from.options.context],
    ["--to-context", options.toContext],
    ["--to-listener", options.toListener],
    ["--to-where", options.toWhere?.map(shellWord).join(" ")],
    ["--to-namespace", options.toNamespace],
    ["--to-integration", options.toIntegration],
    ["--as", options.as],
    ["--from-kubectl", options.fromKubectl],
    ["--to-kubectl", options.toKubectl],
  ].flatMap(([option, value]) => (value === undefined ? [] : [`${option} ${value}`]));
  return ["pierhead move", name, ...given, ...(last === "" ? [] : [last])].join(" ");
}

/** Returns the deployment at the target. @throws CliFailure if a move did not create it */
export function expectTarget(sides: Sides): Deployment {
  if (sides.target !== undefined) return sides.target;
  throw new CliFailure(`There is no ${sides.targetName} at the target: ${sides.source.name} was not moved there.`, {
    hints: ["Repeat the options of the move, such as --to-context and --as.", `Begin: ${commandFor(sides)}`],
  });
}

/** The option that other commands need for the target. */
export const contextOption = ({ toContext }: MoveOptions): string =>
  toContext === undefined ? "" : ` --context ${toContext}`;

export const shownEnd = ({ name, id, url }: Deployment) => ({ name, deployment_id: id, url });
