import { Type } from "typebox";
import type { Deployment } from "../contract/deployments/deployment.ts";
import { deploymentSummary, revisionSummary } from "./summaries.ts";
import { deploymentField, findByName, findDeployment, type ToolContext, ToolFailure, tool } from "./tool.ts";

const confirmField = Type.Optional(
  Type.String({ maxLength: 256, description: "Exact name of the deployment, after the user has agreed." }),
);

const afterwards = "Returns at once: call wait_for_deployment next.";

export const changingTools = [
  tool({
    name: "deploy",
    title: "Deploy",
    description: `Creates a deployment or deploys a new revision, from exactly one of: a git repository, a template, or a directory below the one in which this program runs (stdio only). ${afterwards}`,
    input: Type.Object({
      name: Type.Optional(
        Type.String({
          maxLength: 63,
          pattern: "^[a-z0-9][a-z0-9-]*$",
          description: "Default for a directory: its name.",
        }),
      ),
      directory: Type.Optional(Type.String({ maxLength: 4_096 })),
      git_url: Type.Optional(Type.String({ maxLength: 2_048 })),
      ref: Type.Optional(
        Type.String({ maxLength: 256, description: "Branch, refs/tags/TAG or commit. Default: main." }),
      ),
      config_path: Type.Optional(Type.String({ maxLength: 1_024, description: "Default: langgraph.json." })),
      template: Type.Optional(Type.String({ maxLength: 64, description: "For example langgraph-js-hello." })),
    }),
    effect: "adds",
    async run(context, args) {
      if (args.git_url === undefined && (args.ref !== undefined || args.config_path !== undefined))
        throw new ToolFailure("ref and config_path belong to a git_url.");
      const sources = [args.directory, args.git_url, args.template].filter((source) => source !== undefined);
      if (sources.length !== 1) throw new ToolFailure("Give exactly one of directory, git_url and template.");
      if (args.directory !== undefined) {
        if (context.deployDirectory === undefined)
          throw new ToolFailure("This server cannot read your files. Use git_url, or run: pierhead mcp");
        return deploymentSummary(await context.deployDirectory(args.directory, args.name));
      }
      const { name } = args;
      if (name === undefined) throw new ToolFailure("Give the deployment a name.");
      return deploymentSummary(await deploySource(context, { ...args, name }));
    },
  }),
  tool({
    name: "set_variables",
    title: "Set variables",
    description: `Sets or removes environment variables, keeps all others, and deploys a new revision with them. ${afterwards}`,
    input: Type.Object({
      deployment: deploymentField,
      variables: Type.Record(Type.String({ minLength: 1, maxLength: 256 }), Type.Union([Type.String(), Type.Null()]), {
        description: "Values by name. null removes a variable.",
      }),
    }),
    effect: "destroys",
    async run(context, args) {
      const { id } = await findDeployment(context, args.deployment);
      const all = Object.entries(args.variables);
      const set = all.flatMap(([name, value]) => (value === null ? [] : [{ name, value }]));
      const remove = all.filter(([, value]) => value === null).map(([name]) => name);
      const changed = await context.client.changeVariables(
        { deployment_id: id, body: { set, remove } },
        { signal: context.signal },
      );
      return { ...deploymentSummary(changed), variables: changed.secrets.map(({ name }) => name) };
    },
  }),
  tool({
    name: "redeploy",
    title: "Redeploy",
    description: `Runs the newest revision, or a given one, again with the current variables. ${afterwards}`,
    input: Type.Object({ deployment: deploymentField, revision_id: Type.Optional(Type.String({ maxLength: 36 })) }),
    effect: "adds",
    async run(context, args) {
      const deployment = await findDeployment(context, args.deployment);
      const revision = args.revision_id ?? deployment.latest_revision_id;
      if (revision === null) throw new ToolFailure("This deployment has no revision yet. Use deploy.");
      return deploymentSummary(await redeploy(context, deployment, revision));
    },
  }),
  tool({
    name: "rollback",
    title: "Roll back",
    description: `Restores the revision that served before, or a given one, with its variables and resources. Needs "confirm". ${afterwards}`,
    input: Type.Object({
      deployment: deploymentField,
      revision_id: Type.Optional(Type.String({ maxLength: 36 })),
      confirm: confirmField,
    }),
    effect: "destroys",
    async run(context, args) {
      const deployment = await findDeployment(context, args.deployment);
      const { resources } = await context.client.listRevisions(
        { deployment_id: deployment.id, limit: 100 },
        { signal: context.signal },
      );
      if (args.confirm !== undefined && args.revision_id === undefined)
        throw new ToolFailure('Give the "revision_id" that the user has agreed to.');
      const activeAt = resources.findIndex(({ id }) => id === deployment.active_revision_id);
      const target = resources.find(({ id, status }, index) =>
        args.revision_id === undefined ? index > activeAt && status === "DEPLOYED" : id === args.revision_id,
      );
      if (target === undefined && args.revision_id !== undefined)
        throw new ToolFailure(`There is no revision ${args.revision_id} among the newest 100.`);
      if (target === undefined) throw new ToolFailure("There is no earlier deployed revision to go back to.");
      if (target.id === deployment.active_revision_id) throw new ToolFailure("This revision already serves.");
      const ids = { deployment_id: deployment.id, revision_id: target.id };
      if (args.confirm !== deployment.name) {
        const { changes, variables } = await context.client.previewRollback(
          { ...ids, code_only: false },
          { signal: context.signal },
        );
        const what = { to: revisionSummary(target), changed_settings: changes.map(({ field }) => field), variables };
        requireConfirmation(deployment, args.confirm, `roll it back ${JSON.stringify(what)}`, {
          revision_id: target.id,
        });
      }
      return deploymentSummary(await context.client.rollbackRevision({ ...ids, body: {} }, { signal: context.signal }));
    },
  }),
  tool({
    name: "cancel",
    title: "Cancel a rollout",
    description: "Cancels the newest revision while it is queued, building or deploying. What serves goes on serving.",
    input: Type.Object({ deployment: deploymentField }),
    effect: "destroys",
    async run(context, args) {
      const { id, latest_revision_id } = await findDeployment(context, args.deployment);
      if (latest_revision_id === null) throw new ToolFailure("This deployment has no revision.");
      await context.client.interruptRevision(
        { deployment_id: id, revision_id: latest_revision_id },
        { signal: context.signal },
      );
      return { cancelled: latest_revision_id };
    },
  }),
  tool({
    name: "delete_deployment",
    title: "Delete a deployment",
    description: 'Deletes a deployment with its revisions, logs, variables and database, for good. Needs "confirm".',
    input: Type.Object({ deployment: deploymentField, confirm: confirmField }),
    effect: "destroys",
    async run(context, args) {
      const deployment = await findDeployment(context, args.deployment);
      requireConfirmation(deployment, args.confirm, "delete it with its revisions, logs, variables and database");
      await context.client.deleteDeployment({ deployment_id: deployment.id }, { signal: context.signal });
      return { deleting: deployment.name };
    },
  }),
];

/** @param more arguments that the second call needs, so that it does what the user has agreed to. */
function requireConfirmation({ name }: Deployment, confirm: string | undefined, act: string, more: object = {}): void {
  if (confirm === name) return;
  throw new ToolFailure(
    `Not done. Ask the user whether to change ${name}: ${act}. Then call again with ${JSON.stringify({ ...more, confirm: name })}.`,
  );
}

function redeploy({ client, signal }: ToolContext, { id }: Deployment, revisionId: string): Promise<Deployment> {
  return client.redeployRevision({ deployment_id: id, revision_id: revisionId }, { signal });
}

interface Source {
  name: string;
  git_url?: string;
  ref?: string;
  config_path?: string;
  template?: string;
}

async function deploySource(context: ToolContext, { name, git_url, template, ...given }: Source): Promise<Deployment> {
  const { client, signal } = context;
  const found = await findByName(context, name);
  const source = git_url === undefined ? ("internal_template" as const) : ("github" as const);
  if (found !== undefined && (found.source !== source || (template ?? null) !== found.source_config.template_id)) {
    throw new ToolFailure(`${name} exists with another source (${found.source}). Choose another name.`);
  }
  if (git_url === undefined) {
    if (found !== undefined) return createRevision(context, found);
    const body = {
      name,
      source,
      source_config: { template_id: template ?? null },
      source_revision_config: {},
      secrets: [],
    };
    return client.createDeployment({ body }, { signal });
  }
  const saved = found?.source_config.repo_url === git_url ? found.source_revision_config : undefined;
  const settings = {
    source_config: { repo_url: git_url },
    source_revision_config: {
      repo_ref: given.ref ?? saved?.repo_ref ?? "main",
      langgraph_config_path: given.config_path ?? saved?.langgraph_config_path ?? "langgraph.json",
    },
  };
  if (found !== undefined) return client.patchDeployment({ deployment_id: found.id, body: settings }, { signal });
  const source_config = { ...settings.source_config, build_on_push: false };
  return client.createDeployment({ body: { ...settings, source_config, name, source, secrets: [] } }, { signal });
}

async function createRevision({ client, signal }: ToolContext, { id }: Deployment): Promise<Deployment> {
  await client.createRevision({ deployment_id: id, body: {} }, { signal });
  return client.getDeployment({ deployment_id: id }, { signal });
}
