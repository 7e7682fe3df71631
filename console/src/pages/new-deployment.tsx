import { useMutation, useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useRef, useState } from "react";
import type { Client } from "../../../src/client/client.ts";
import { ApiFailure } from "../../../src/client/failure.ts";
import type { Deployment } from "../../../src/contract/deployments/deployment.ts";
import { bodyOf, type Draft, emptyDraft, type Problems, problemsOf } from "../draft.ts";
import { CopyAs, shellWord } from "../parts/copy-as.tsx";
import { DropFolder } from "../parts/drop-folder.tsx";
import { SelectField, Tabs, TextField } from "../parts/fields.tsx";
import { Notice } from "../parts/notices.tsx";
import { usePageTitle } from "../parts/page-title.ts";
import { useToasts } from "../parts/toasts.tsx";
import { VariablesEditor } from "../parts/variables-editor.tsx";
import { DeploymentTypeNames, sourceNames, typeText } from "../parts/words.ts";
import { queries, textOf } from "../server.ts";
import { useSession } from "../session.tsx";
import { uploadSource } from "../upload-source.ts";
import { RepositoryPicker } from "./integrations.tsx";

/** The form for a new deployment: source, name, environment. It shows what the server would reject while the user types. */
export function NewDeploymentPage() {
  usePageTitle("New deployment");
  const { client, mayChange } = useSession();
  const { notify } = useToasts();
  const navigate = useNavigate();
  const offered = useOfferedSources();
  const [typed, setDraft] = useState<Draft>(emptyDraft);
  const draft = { ...typed, source: offered.find((kind) => kind === typed.source) ?? offered[0] ?? typed.source };
  const attempt = useRef<Attempt | null>(null);
  const problems = problemsOf(draft);
  const change = (part: Partial<Draft>) => setDraft((before) => ({ ...before, ...part }));
  const create = useMutation({
    mutationFn: () => createFrom(client, draft, attempt),
    onSuccess: (made) => {
      notify(`${made.name} was created.`);
      void queries.invalidateQueries({ queryKey: ["deployments"] });
      void navigate({
        to: "/o/$tenantId/host/deployments/$id/$part",
        params: { tenantId: made.tenant_id, id: made.id, part: "revisions" },
      });
    },
  });
  if (!mayChange) return <Notice kind="warn">Your role is read-only. Ask an admin for the deployer role.</Notice>;
  return (
    <>
      <h1>New deployment</h1>
      <form
        className="card"
        onSubmit={(event) => {
          event.preventDefault();
          create.mutate();
        }}
      >
        <Tabs
          label="Source"
          value={draft.source}
          onValue={(source) => change({ source })}
          options={offered.map((value) => ({ value, text: sourceNames[value] }))}
        />
        <SourceFields draft={draft} change={change} problems={problems} />
        <General draft={draft} change={change} problems={problems} />
        {create.isError && (
          <p role="alert" className="bad-text">
            {textOf(create.error)}
          </p>
        )}
        <div className="row">
          <button
            type="submit"
            className="primary"
            disabled={Object.values(problems).some(Boolean) || create.isPending}
          >
            {create.isPending ? "Creating …" : "Create and deploy"}
          </button>
          <CopyAs
            call={{ id: "createDeployment", input: { body: bodyOf(withoutValues(draft)) }, cli: commandOf(draft) }}
          />
        </div>
      </form>
    </>
  );
}

interface FormProps {
  draft: Draft;
  change: (part: Partial<Draft>) => void;
  problems: Problems;
}

/** Returns the sources that the form and the server's mode both support. The first one is the default. */
function useOfferedSources(): Draft["source"][] {
  const { client } = useSession();
  const info = useQuery({ queryKey: ["info"], queryFn: () => client.getInfo(), staleTime: Number.POSITIVE_INFINITY });
  return (["internal_template", "github", "internal_source", "external_docker"] as const).filter(
    (kind) => info.data?.sources.includes(kind) ?? true,
  );
}

function SourceFields(props: FormProps) {
  const { draft, change, problems } = props;
  if (draft.source === "internal_template") return <TemplateFields {...props} />;
  if (draft.source === "external_docker")
    return (
      <TextField
        label="Image"
        value={draft.image}
        onValue={(image) => change({ image })}
        problem={draft.image === "" ? null : problems.image}
        placeholder="registry.example.org/team/agent:1.4"
        hint="With a tag or digest. The server in the image must answer GET /ok on $PORT."
      />
    );
  const configPath = (
    <TextField
      label="Config file"
      value={draft.configPath}
      onValue={(path) => change({ configPath: path })}
      problem={problems.configPath}
      hint="langgraph.json, or pierhead.json for any other server. The path is relative to the root of the source."
    />
  );
  if (draft.source === "internal_source")
    return (
      <>
        <DropFolder files={draft.files} onFiles={(files) => change({ files })} />
        {configPath}
      </>
    );
  return (
    <>
      <RepositoryPicker
        integrationId={draft.integrationId}
        onIntegration={(integrationId) => change({ integrationId })}
        onRepository={({ url, default_branch }) => change({ repoUrl: url, ref: default_branch })}
      />
      <TextField
        label="Repository"
        value={draft.repoUrl}
        onValue={(repoUrl) => change({ repoUrl })}
        problem={draft.repoUrl === "" ? null : problems.repoUrl}
        placeholder="https://github.com/acme/agent"
      />
      <TextField
        label="Branch, refs/tags/… or commit"
        value={draft.ref}
        onValue={(ref) => change({ ref })}
        problem={problems.ref}
      />
      {configPath}
      <label className="row">
        <input
          type="checkbox"
          checked={draft.buildOnPush}
          onChange={(event) => change({ buildOnPush: event.target.checked })}
        />
        Deploy every push to the branch
      </label>
    </>
  );
}

function TemplateFields({ draft, change }: FormProps) {
  const { client } = useSession();
  const found = useQuery({ queryKey: ["templates"], queryFn: () => client.listTemplates(), staleTime: 60_000 });
  return (
    <fieldset className="options">
      <legend>Template</legend>
      {(found.data?.templates ?? []).map(({ id, name, description }) => (
        <label key={id} className="option">
          <span>
            <input
              type="radio"
              name="template"
              checked={draft.templateId === id}
              onChange={() =>
                change({ templateId: id, name: draft.name === "" || draft.name === draft.templateId ? id : draft.name })
              }
            />{" "}
            {name}
          </span>
          <small className="soft">{description}</small>
        </label>
      ))}
    </fieldset>
  );
}

function General({ draft, change, problems }: FormProps) {
  return (
    <>
      <TextField
        label="Name"
        value={draft.name}
        onValue={(name) => change({ name })}
        problem={draft.name === "" ? null : problems.name}
        hint="Unique in the workspace. You cannot change it later."
        required
      />
      {draft.source !== "external_docker" && (
        <SelectField
          label="Type"
          value={draft.type}
          onValue={(type) => change({ type })}
          options={DeploymentTypeNames.toReversed().map((value) => ({ value, text: typeText(value) }))}
        />
      )}
      <h2>Variables</h2>
      <VariablesEditor variables={draft.variables} onChange={(variables) => change({ variables })} />
      {problems.variables && <p className="bad-text">{problems.variables}</p>}
    </>
  );
}

/** An earlier attempt whose source did not arrive, with the request it was created from. */
interface Attempt {
  made: Deployment;
  asked: string;
}

/** Creates an uploaded deployment in three steps: the deployment, its source, and a revision from that source. */
async function createFrom(client: Client, draft: Draft, attempt: { current: Attempt | null }): Promise<Deployment> {
  if (draft.source !== "internal_source") return client.createDeployment({ body: bodyOf(draft) });
  const deploy = (made: Deployment) => uploadSource(client, made.id, draft.files, draft.configPath).then(() => made);
  const asked = JSON.stringify(bodyOf(draft));
  if (attempt.current?.asked === asked) return deploy(attempt.current.made);
  if (attempt.current !== null) await discard(client, attempt.current.made);
  attempt.current = null;
  const made = await client.createDeployment({ body: bodyOf(draft) });
  attempt.current = { made, asked };
  return deploy(made);
}

/** Deletes the deployment of a failed attempt and waits until its name is free. */
async function discard(client: Client, made: Deployment): Promise<void> {
  const ids = { deployment_id: made.id };
  await client.deleteDeployment(ids).catch((error: unknown) => {
    if (!(error instanceof ApiFailure && error.status === 404)) throw error;
  });
  await client.waitForDeletion(ids);
}

/** Hides the values of variables: copied commands end up in chats and shell histories. */
const withoutValues = (draft: Draft): Draft => ({
  ...draft,
  variables: draft.variables.filter(({ name }) => name !== "").map(({ name }) => ({ name, value: "…" })),
});

/** Returns undefined for requests that `deploy` cannot express. */
function commandOf(draft: Draft): string | undefined {
  const variables = draft.variables.length === 0 ? "" : " --env-from .env";
  const named = `--name ${shellWord(draft.name || "NAME")} --type ${draft.type}${variables}`;
  const config = `--config ${shellWord(draft.configPath)}`;
  switch (draft.source) {
    case "internal_template":
      return `npx pierhead deploy --template ${shellWord(draft.templateId || "ID")} ${named}`;
    case "github":
      if (draft.integrationId !== "" || draft.buildOnPush) return undefined;
      return `npx pierhead deploy ${shellWord(draft.repoUrl || "URL")} --ref ${shellWord(draft.ref)} ${config} ${named}`;
    case "internal_source":
      return `npx pierhead deploy . ${config} ${named}`;
    default:
      return undefined;
  }
}
