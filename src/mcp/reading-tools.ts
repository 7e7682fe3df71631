import { Type } from "typebox";
import { pause } from "../base/pause.ts";
import { shortenText } from "../base/shorten-text.ts";
import { isSettled } from "../client/client.ts";
import type { Revision } from "../contract/revisions/revision.ts";
import { deploymentSummary, revisionSummary } from "./summaries.ts";
import { deploymentField, findDeployment, type ToolContext, ToolFailure, tool } from "./tool.ts";

const linesMax = 500;

/** Lines of a failed build that an answer includes without being asked. */
const failureLines = 30;

/** Characters of a line, and of all lines of an answer: agents write lines of 64 KiB, which would fill the context of a model. */
const lineMax = 4_000;
const shownMax = 200_000;

/** Below the time after which common clients give a call up (60 s). */
const waitSecondsMax = 50;

export const readingTools = [
  tool({
    name: "list_deployments",
    title: "List deployments",
    description: "Lists the deployments of the workspace with their health.",
    input: Type.Object({
      search: Type.Optional(
        Type.String({ maxLength: 256, description: "Part of the name, repository, image, or newest commit." }),
      ),
      limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 100, default: 50 })),
    }),
    effect: "reads",
    async run({ client, signal }, { search, limit = 50 }) {
      const query = search === undefined ? { limit } : { limit, text_contains: search };
      const { resources } = await client.listDeployments(query, { signal });
      return { deployments: resources.map(deploymentSummary), may_have_more: resources.length === limit };
    },
  }),
  tool({
    name: "deployment_status",
    title: "Status of a deployment",
    description: "Shows a deployment, its health with the cause and the next action, and its newest revisions.",
    input: Type.Object({ deployment: deploymentField }),
    effect: "reads",
    async run(context, args) {
      const deployment = await findDeployment(context, args.deployment);
      const { resources } = await context.client.listRevisions(
        { deployment_id: deployment.id, limit: 10 },
        { signal: context.signal },
      );
      return { ...deploymentSummary(deployment), revisions: resources.map(revisionSummary) };
    },
  }),
  tool({
    name: "wait_for_deployment",
    title: "Wait for a rollout",
    description: `Waits until the newest revision has succeeded or failed, at most ${waitSecondsMax} s. Call it again while "finished" is false. After a failed build it returns the end of the build log.`,
    input: Type.Object({
      deployment: deploymentField,
      seconds: Type.Optional(Type.Integer({ minimum: 1, maximum: waitSecondsMax, default: waitSecondsMax })),
    }),
    effect: "reads",
    async run(context, args) {
      const { client, signal } = context;
      const { id, latest_revision_id: revisionId } = await findDeployment(context, args.deployment);
      if (revisionId === null) throw new ToolFailure("This deployment has no revision yet.");
      const ids = { deployment_id: id, revision_id: revisionId };
      const deadlineAt = performance.now() + (args.seconds ?? waitSecondsMax) * 1_000;
      let revision = await client.getRevision(ids, { signal });
      while (!isSettled(revision.status) && performance.now() < deadlineAt) {
        await pause(1_000, signal);
        revision = await client.getRevision(ids, { signal });
      }
      const deployment = await client.getDeployment({ deployment_id: id }, { signal });
      return {
        finished: isSettled(revision.status),
        succeeded: revision.status === "DEPLOYED",
        revision: revisionSummary(revision),
        ...(await endOfFailedLog(context, revision, id)),
        deployment: deploymentSummary(deployment),
      };
    },
  }),
  tool({
    name: "why",
    title: "Why a deployment is in its state",
    description:
      "Explains what the server does next with a deployment, what it waits for, and what its latest passes did.",
    input: Type.Object({ deployment: deploymentField }),
    effect: "reads",
    role: "deployer",
    async run(context, args) {
      const deployment = await findDeployment(context, args.deployment);
      const { next_step, outcomes } = await context.client.debugDeployment(
        { deployment_id: deployment.id },
        { signal: context.signal },
      );
      return { ...deploymentSummary(deployment), next_step, latest_passes: outcomes.slice(0, 10) };
    },
  }),
  tool({
    name: "read_logs",
    title: "Read logs",
    description: `Reads the newest log lines of a deployment, oldest first, at most ${shownMax} characters. Long lines are shortened.`,
    input: Type.Object({
      deployment: deploymentField,
      kind: Type.Union([Type.Literal("build"), Type.Literal("agent")], {
        description: "Log of the newest build, or of the running agent.",
      }),
      lines: Type.Optional(Type.Integer({ minimum: 1, maximum: linesMax, default: 100 })),
      search: Type.Optional(Type.String({ maxLength: 256, description: "Only lines that contain this text." })),
      only_errors: Type.Optional(Type.Boolean()),
    }),
    effect: "reads",
    async run(context, { kind, lines = 100, search, only_errors, ...args }) {
      const { id, latest_revision_id: revisionId } = await findDeployment(context, args.deployment);
      const question = {
        deployment_id: id,
        ...(kind === "build" && revisionId !== null
          ? { type: "build" as const, revision_id: revisionId }
          : { type: "deploy" as const }),
        ...(search !== undefined && { query: search }),
        ...(only_errors === true && { level: "ERROR" as const }),
      };
      const entries = await context.client.tailLogs(question, lines, context.signal);
      return { lines: newestOf(entries.map((entry) => `${entry.timestamp} ${entry.level} ${shown(entry.message)}`)) };
    },
  }),
  tool({
    name: "list_variables",
    title: "List variables",
    description: "Lists the names of the environment variables of a deployment. Their values are never shown.",
    input: Type.Object({ deployment: deploymentField }),
    effect: "reads",
    async run(context, args) {
      const { secrets } = await findDeployment(context, args.deployment);
      return { variables: secrets.map(({ name }) => name) };
    },
  }),
];

const shown = (message: string) => shortenText(message, lineMax);

/** Returns the last lines that fit into an answer. */
function newestOf(lines: string[]): string[] {
  let left = shownMax;
  const from = lines.findLastIndex((line) => {
    left -= line.length;
    return left < 0;
  });
  return lines.slice(from + 1);
}

async function endOfFailedLog({ client, signal }: ToolContext, { id, status }: Revision, deploymentId: string) {
  if (status !== "BUILD_FAILED") return {};
  const question = { deployment_id: deploymentId, revision_id: id, type: "build" as const };
  const entries = await client.tailLogs(question, failureLines, signal);
  return { build_log: entries.map(({ message }) => shown(message)) };
}
