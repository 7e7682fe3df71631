import { useMutation, useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { type ReactNode, useEffect, useRef, useState } from "react";
import type { Client } from "../../../src/client/client.ts";
import { ApiFailure } from "../../../src/client/failure.ts";
import type { Deployment } from "../../../src/contract/deployments/deployment.ts";
import type { Detection } from "../../../src/contract/detections/detection.ts";
import { labelsText } from "../../../src/domain/listener-labels.ts";
import type { SourceFile } from "../archive.ts";
import { bodyOf, type Draft, isHere, type Problems, problemsOf } from "../draft.ts";
import { forgetDraft, keepDraft, keptDraft } from "../kept-draft.ts";
import { CopyAs, shellWord } from "../parts/copy-as.tsx";
import { DeployWatch } from "../parts/deploy-watch.tsx";
import { DetectionCard, useDetection } from "../parts/detection-card.tsx";
import { DropFolder } from "../parts/drop-folder.tsx";
import { SelectField, TextField } from "../parts/fields.tsx";
import { GroupChoice, groupOf, useGroups } from "../parts/group-choice.tsx";
import { Failure, Loading, Notice } from "../parts/notices.tsx";
import { PageTitle } from "../parts/page-head.tsx";
import { usePageTitle } from "../parts/page-title.ts";
import { type Placement, PlacementFields, usePlacement } from "../parts/placement.tsx";
import { numberText } from "../parts/revision-words.tsx";
import { SourceIcon } from "../parts/source-icon.tsx";
import { VariablesEditor } from "../parts/variables-editor.tsx";
import { DeploymentTypeNames, sourceNames, typeText } from "../parts/words.ts";
import { queries, textOf } from "../server.ts";
import { useSession } from "../session.tsx";
import { trialOf } from "../trial.ts";
import { uploadSource } from "../upload-source.ts";
import { RepositoryPicker } from "./integrations.tsx";

/** A new deployment from its source to its address: the form, then the build of what it created. */
export function NewDeploymentPage() {
  const { made, of, revision } = useSearch({ strict: false });
  const { mayChange, workspaceId } = useSession();
  const [sent, setSent] = useState<{ id: string; files: SourceFile[] } | null>(null);
  // Back and Forward change the deployment on this page. The folder of one must not be uploaded to another.
  if (made !== undefined)
    return <DeployWatch key={made} deploymentId={made} files={sent?.id === made ? sent.files : []} />;
  if (!mayChange) return <Notice kind="warn">Your role is read-only. Ask an admin for the deployer role.</Notice>;
  const onMade = (id: string, files: SourceFile[]) => setSent({ id, files });
  if (of !== undefined && revision !== undefined)
    return <TrialForm key={revision} deploymentId={of} revisionId={revision} onMade={onMade} />;
  return <NewDeploymentForm key={workspaceId} onMade={onMade} />;
}

type OnMade = (id: string, files: SourceFile[]) => void;

/** The form with the code of a revision that another deployment has, and the settings of that deployment. */
function TrialForm(props: { deploymentId: string; revisionId: string; onMade: OnMade }) {
  const { deploymentId: deployment_id, revisionId: revision_id, onMade } = props;
  const { client } = useSession();
  const found = useQuery({
    queryKey: ["deployment", deployment_id, "trial", revision_id],
    queryFn: async ({ signal }) => {
      const [deployment, revision, used] = await Promise.all([
        client.getDeployment({ deployment_id }, { signal }),
        client.getRevision({ deployment_id, revision_id }, { signal }),
        client.getDeploymentVariableGroups({ deployment_id }, { signal }),
      ]);
      return { deployment, revision, groupIds: used.groups.map(({ id }) => id) };
    },
    // What the user types belongs to the deployment as it was when the form opened. The next form reads it again.
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 0,
  });
  if (found.isPending) return <Loading what="the revision" />;
  // An answer that cannot be renewed must not take away what the user typed.
  if (found.data === undefined) return <Failure error={found.error} retry={() => void found.refetch()} />;
  const { deployment, revision, groupIds } = found.data;
  return (
    <NewDeploymentForm
      start={trialOf(deployment, revision, groupIds)}
      about={
        <>
          Revision {numberText(revision)} of {deployment.name}, without its traffic: a deployment with its own address,
          threads and database, and the variables that {deployment.name} has now. Addresses of data in them lead to the
          same data. Delete it when you are done.
        </>
      }
      onMade={onMade}
    />
  );
}

/**
 * The draft of this user in this workspace. It survives a reload, without files and values of variables. A draft that starts with
 * a revision is read again instead.
 */
function useDraft(offered: Draft["source"][], start: Draft | undefined) {
  const { session, workspaceId } = useSession();
  const owner = `${session.api_key_id ?? session.member_id ?? ""}.${workspaceId}`;
  const { template, from } = useSearch({ strict: false });
  const [typed, setDraft] = useState<Draft>(() => start ?? startingWith(keptDraft(owner), template, from));
  const isKept = useRef(start === undefined);
  useEffect(() => {
    if (isKept.current) keepDraft(owner, typed);
  }, [owner, typed]);
  const draft = { ...typed, source: offered.find((kind) => kind === typed.source) ?? offered[0] ?? typed.source };
  return {
    draft,
    change: (part: Partial<Draft>) => setDraft((before) => ({ ...before, ...part })),
    forget: () => {
      isKept.current = false;
      if (start === undefined) forgetDraft(owner);
    },
  };
}

/** Returns what a draft still needs, because a disabled button does not say it. Problems of typed text stand at their fields. */
function missingOf({ source, repoUrl, image, name }: Draft, problems: Problems): string | undefined {
  if (problems.templateId !== undefined || problems.files !== undefined) return problems.templateId ?? problems.files;
  if (source === "github" && repoUrl === "") return "Enter a repository.";
  if (source === "external_docker" && image === "") return "Enter an image.";
  return name === "" ? "Enter a name." : undefined;
}

/** Returns the draft with the template or the kind of source that a link chose. */
function startingWith(draft: Draft, template: string | undefined, from: Draft["source"] | undefined): Draft {
  if (template !== undefined)
    return { ...draft, source: "internal_template", templateId: template, name: draft.name || template };
  return from === undefined ? draft : { ...draft, source: from };
}

/** Shows what the server would reject and what it would build while the user types. */
function NewDeploymentForm({ start, about, onMade }: { start?: Draft; about?: ReactNode; onMade: OnMade }) {
  usePageTitle("New deployment");
  const { client } = useSession();
  const navigate = useNavigate();
  const offered = useOfferedSources();
  const { draft: typed, change, forget } = useDraft(offered, start);
  const { draft, placement } = usePlacement(typed);
  const attempt = useRef<Attempt | null>(null);
  const problems = problemsOf(draft);
  const found = useDetection(draft);
  useAskedVariables(draft, change, found.data);
  const groups = useGroups();
  // A kept draft may name a group that was deleted since.
  const groupIds = draft.groupIds.filter((id) => groups === undefined || groups.some((group) => group.id === id));
  const create = useMutation({
    mutationFn: () => createFrom(client, { ...draft, groupIds }, attempt),
    onSuccess: (made) => {
      forget();
      onMade(made.id, draft.files);
      void queries.invalidateQueries({ queryKey: ["deployments"] });
      void navigate({ to: "/host/new", search: { made: made.id }, replace: true });
    },
  });
  const missing = missingOf(draft, problems);
  const form = { draft, change, problems };
  return (
    <>
      <PageTitle title="New deployment" about={about ?? "From a source to an address that answers."} />
      <form
        className="new-form"
        onSubmit={(event) => {
          event.preventDefault();
          create.mutate();
        }}
      >
        <fieldset className="kinds" aria-label="Source">
          {offered.map((value) => (
            <button
              key={value}
              type="button"
              aria-pressed={draft.source === value}
              onClick={() => change({ source: value })}
            >
              <SourceIcon of={value} size={16} /> {sourceNames[value]}
            </button>
          ))}
        </fieldset>
        <div className="new-main">
          <section className="card">
            <SourceFields {...form} />
            <DetectionCard found={found} onConfigPath={(configPath) => change({ configPath })} />
          </section>
          <General {...form} placement={placement} />
        </div>
        <aside className="card" aria-label="What will happen">
          <h2>What will happen</h2>
          <Plan draft={draft} found={found.data} />
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
          {missing !== undefined && <p className="softer">{missing}</p>}
        </aside>
      </form>
    </>
  );
}

/** Adds a row for each variable that the source asks for, once: a row that the user removes does not come back. */
function useAskedVariables(draft: Draft, change: (part: Partial<Draft>) => void, found: Detection | undefined): void {
  const names = (found?.variables ?? []).map(({ name }) => name);
  const asked = names.filter((name) => !draft.asked.includes(name));
  useEffect(() => {
    if (asked.length === 0) return;
    const known = draft.variables.map(({ name }) => name);
    const rows = asked.filter((name) => !known.includes(name)).map((name) => ({ name, value: "" }));
    change({ asked: [...draft.asked, ...asked], variables: [...draft.variables, ...rows] });
  });
}

/** The steps of the deploy in words, with what the detection knows. */
function Plan({ draft, found }: { draft: Draft; found: Detection | undefined }) {
  const { source, repoUrl, ref, image, templateId, files } = draft;
  const fetched = {
    github: [repoUrl.replace(/^https?:\/\//, "") || "the repository", found?.commit_sha?.slice(0, 7) ?? ref]
      .filter(Boolean)
      .join(" at "),
    internal_source: files.length === 0 ? "the folder" : `${files.length} files`,
    internal_template: templateId || "the template",
    external_docker: image || "the image",
  }[source];
  const version = found?.python_version ?? found?.node_version;
  const language = found?.language === "python" ? "Python" : found?.language === "node" ? "Node" : null;
  const built = [
    language === null ? null : [language, version].filter(Boolean).join(" "),
    found?.package_manager == null ? null : `with ${found.package_manager}`,
  ].filter(Boolean);
  return (
    <ol className="plan">
      <li>
        <strong>{source === "external_docker" ? "Use" : source === "internal_source" ? "Upload" : "Fetch"}</strong>{" "}
        {fetched}
      </li>
      {source !== "external_docker" && (
        <li>
          <strong>Build</strong> {built.length === 0 ? "it" : built.join(" ")}
        </li>
      )}
      <li>
        <strong>Start</strong> {found?.start_command ?? "a replica"}
      </li>
      <li>
        <strong>Answer</strong> when it is healthy
      </li>
    </ol>
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
      <div className="pair">
        <TextField
          label="Branch, refs/tags/… or commit"
          value={draft.ref}
          onValue={(ref) => change({ ref })}
          problem={problems.ref}
        />
        {configPath}
      </div>
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

function General({ draft, change, problems, placement }: FormProps & { placement: Placement }) {
  const groups = useGroups() ?? [];
  return (
    <>
      <section className="card">
        <h2>Name and size</h2>
        <TextField
          label="Name"
          value={draft.name}
          onValue={(name) => change({ name })}
          problem={draft.name === "" ? null : problems.name}
          hint="Unique in the workspace. You cannot change it later."
          required
        />
        <PlacementFields draft={draft} placement={placement} change={change} />
        {draft.source !== "external_docker" && (
          <div className="pair">
            {isHere(draft) && (
              <SelectField
                label="Type"
                value={draft.type}
                onValue={(type) => change({ type })}
                options={DeploymentTypeNames.toReversed().map((value) => ({ value, text: typeText(value) }))}
              />
            )}
            <SelectField
              label="Threads and runs"
              value={draft.engine}
              onValue={(engine) => change({ engine })}
              options={engineOptions}
            />
          </div>
        )}
      </section>
      <section className="card">
        <h2>Variables</h2>
        <VariablesEditor
          source={draft.source}
          variables={draft.variables}
          onChange={(variables) => change({ variables })}
          markOf={({ name, value }) => {
            const group = value === "" ? groupOf(groups, draft.groupIds, name) : undefined;
            if (group !== undefined) return `from ${group}`;
            if (!draft.asked.includes(name)) return "";
            return value === "" ? "asked for, left out while empty" : "asked for";
          }}
        />
        <GroupChoice groups={groups} ids={draft.groupIds} onChange={(groupIds) => change({ groupIds })} />
        {problems.variables && <p className="bad-text">{problems.variables}</p>}
      </section>
    </>
  );
}

const engineOptions = [
  { value: "" as const, text: "As langgraph.json says, or the default" },
  { value: "file" as const, text: "LangGraph.js on files" },
  { value: "postgres" as const, text: "LangGraph.js on PostgreSQL" },
  { value: "memory" as const, text: "LangGraph for Python, in memory" },
  { value: "aegra" as const, text: "LangGraph for Python on PostgreSQL and Redis (Aegra)" },
];

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
  if (draft.groupIds.length > 0 || draft.copied !== null) return undefined;
  const variables = draft.variables.length === 0 ? "" : " --env-from .env";
  const engine = draft.engine === "" ? "" : ` --engine ${draft.engine}`;
  const namespace = draft.namespace === "" ? "" : ` --namespace ${draft.namespace}`;
  if (draft.labels !== null && Object.keys(draft.labels).length === 0) return undefined;
  const where =
    draft.labels === null
      ? `--listener ${draft.listenerId}`
      : `--where ${shellWord(labelsText(draft.labels).replaceAll(" ", ""))}`;
  const placed = isHere(draft) ? ` --type ${draft.type}${engine}` : ` ${where}${namespace}`;
  const named = `--name ${shellWord(draft.name || "NAME")}${placed}${variables}`;
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
