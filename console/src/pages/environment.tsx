import { useMutation } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { Undo2 } from "lucide-react";
import { useEffect, useRef, useState } from "react";
import type { Deployment, Secret, SecretReference } from "../../../src/contract/deployments/deployment.ts";
import type { ChangeVariables } from "../../../src/contract/revisions/run-again.ts";
import { checkOneOrigin, checkSecretReferences, checkVariableNames } from "../../../src/domain/secret-names.ts";
import { type Environment, mergeChanges } from "../environment.ts";
import { CopyAs } from "../parts/copy-as.tsx";
import { Notice } from "../parts/notices.tsx";
import { ReferencesEditor } from "../parts/references-editor.tsx";
import { SharedGroups } from "../parts/shared-groups.tsx";
import { useToasts } from "../parts/toasts.tsx";
import { VariablesEditor } from "../parts/variables-editor.tsx";
import { problemFrom, queries } from "../server.ts";
import { useSession } from "../session.tsx";
import { keepStagedChanges, stagedChangesOf } from "../staged-changes.ts";

/** The environment of the next revision. The page collects changes and deploys them together. */
export function EnvironmentPart({ deployment }: { deployment: Deployment }) {
  const { mayChange } = useSession();
  const { secrets, secret_references } = deployment;
  const kept = stagedChangesOf(deployment.id);
  // Kept changes are applied to what the deployment has now, which others may have changed meanwhile.
  const [base, setBase] = useState<Environment>({ secrets, references: secret_references ?? [] });
  const { variable } = useSearch({ strict: false });
  const [staged, setStaged] = useState(() => (kept === undefined ? base : mergeChanges(base, kept.base, kept.staged)));
  const rows = useOfferedRow(variable, staged.secrets, (secrets) => setStaged({ ...staged, secrets }));
  const editor = useRef<HTMLElement>(null);
  // The cause of a failure names the variable, and its link leads to the field of the value.
  useEffect(() => {
    const fields = [...(editor.current?.querySelectorAll("input") ?? [])];
    fields.find((field) => field.getAttribute("aria-label") === `Value of ${variable}`)?.focus();
  }, [variable]);
  useEffect(() => keepStagedChanges(deployment.id, { base, staged }), [deployment.id, base, staged]);
  const secretChanges = differences(base.secrets, staged.secrets);
  const referenceChanges = differences(base.references.map(asVariable), staged.references.map(asVariable));
  const hasNewReferences = Object.values(referenceChanges).flat().length > 0;
  if (!mayChange) {
    return (
      <>
        <ReadOnly deployment={deployment} />
        <SharedGroups deployment={deployment} />
      </>
    );
  }
  const markOf = ({ name }: Secret) => {
    if (name === rows.offered) return "has no value yet";
    if (secretChanges.added.includes(name)) return "new";
    return secretChanges.changed.includes(name) ? "changed" : "";
  };
  return (
    <>
      <section ref={editor} className="card variables-card" aria-label="Variables of the next revision">
        <div>
          <h2>Variables</h2>
          <p className="soft">
            {staged.secrets.length === 0
              ? "The agent server gets none of your variables yet. Add API keys of models and addresses of services here."
              : "The agent server gets these when it starts. They are stored encrypted, and each revision keeps its own."}
          </p>
        </div>
        <VariablesEditor source={deployment.source} variables={rows.shown} onChange={rows.change} markOf={markOf} />
      </section>
      {deployment.source === "external_docker" && (
        <ReferencesEditor
          references={staged.references}
          onChange={(changed) => setStaged({ ...staged, references: changed })}
        />
      )}
      <SharedGroups deployment={deployment} />
      <StagedChanges
        deployment={deployment}
        isEmptied={hasNewReferences && base.secrets.length > 0 && staged.secrets.length === 0}
        base={base}
        staged={staged}
        hasNewReferences={hasNewReferences}
        changes={{
          set: staged.secrets.filter(({ name }) => [...secretChanges.added, ...secretChanges.changed].includes(name)),
          remove: secretChanges.removed,
        }}
        lines={{
          Added: [...secretChanges.added, ...referenceChanges.added],
          Changed: [...secretChanges.changed, ...referenceChanges.changed],
          Removed: [...secretChanges.removed, ...referenceChanges.removed],
        }}
        onDiscard={() => setStaged(base)}
        onUndo={(name) => setStaged(withoutChange(name, staged, base))}
        onDeployed={(deployed) => {
          setBase(deployed);
          setStaged(deployed);
        }}
      />
    </>
  );
}

/** Offers a row for the variable that a link names. The row is no change until it has a value, and the user can remove it. */
function useOfferedRow(variable: string | undefined, secrets: Secret[], onChange: (secrets: Secret[]) => void) {
  const [name, setName] = useState(variable);
  const isOffered = name !== undefined && !secrets.some((one) => one.name === name);
  return {
    shown: isOffered ? [{ name, value: "" }, ...secrets] : secrets,
    offered: isOffered ? name : undefined,
    change: (changed: Secret[]) => {
      if (!changed.some((one) => one.name === name)) setName(undefined);
      onChange(changed.filter((one) => !(isOffered && one.name === name && one.value === "")));
    },
  };
}

const asVariable = ({ name, secret_name, secret_key }: SecretReference) => ({
  name,
  value: `${secret_name}/${secret_key}`,
});

/** Returns the server's reason to reject this environment, or null if it is valid. */
function problemOf({ secrets, references }: Environment, source: Deployment["source"]): string | null {
  // An empty row is not a variable.
  const named = secrets.filter(({ name }) => name !== "");
  if (secrets.some(({ name, value }) => name === "" && value !== "")) return "A value has no name.";
  const names = named.map(({ name }) => name);
  return problemFrom(() => {
    checkSecretReferences(references, source);
    checkOneOrigin(names, references);
    checkVariableNames(named, source);
  });
}

/** The read-only form of {@link ReferencesEditor}. */
function References({ deployment: { secret_references: references } }: { deployment: Deployment }) {
  if (references === null || references.length === 0) return null;
  return (
    <section aria-label="From Kubernetes Secrets">
      <h2>From Kubernetes Secrets</h2>
      <ul>
        {references.map(({ name, secret_name, secret_key }) => (
          <li key={name}>
            <code>{name}</code> ← <code>{`${secret_name}/${secret_key}`}</code>
          </li>
        ))}
      </ul>
    </section>
  );
}

function differences(before: readonly Secret[], after: readonly Secret[]) {
  const old = new Map(before.map(({ name, value }) => [name, value]));
  const names = new Set(after.map(({ name }) => name));
  return {
    added: after.filter(({ name }) => name !== "" && !old.has(name)).map(({ name }) => name),
    changed: after.filter(({ name, value }) => old.has(name) && old.get(name) !== value).map(({ name }) => name),
    removed: before.filter(({ name }) => !names.has(name)).map(({ name }) => name),
  };
}

/** Returns the staged environment with one variable as it was. */
function withoutChange(name: string, staged: Environment, base: Environment): Environment {
  return {
    secrets: restored(name, staged.secrets, base.secrets),
    references: restored(name, staged.references, base.references),
  };
}

/** Returns the list with the entry of that name as it was before, in its old place, or without it if it is new. */
function restored<T extends { name: string }>(name: string, list: readonly T[], before: readonly T[]): T[] {
  const [old] = before.filter((one) => one.name === name);
  if (old === undefined) return list.filter((one) => one.name !== name);
  if (list.some((one) => one.name === name)) return list.map((one) => (one.name === name ? old : one));
  const at = before.indexOf(old);
  return [...list.slice(0, at), old, ...list.slice(at)];
}

interface StagedProps {
  deployment: Deployment;
  /** The environment when the changes began. */
  base: Environment;
  staged: Environment;
  lines: Record<"Added" | "Changed" | "Removed", string[]>;
  hasNewReferences: boolean;
  /** The changes of variables alone. */
  changes: ChangeVariables;
  /** Whether the user removed the last of the variables in a change for which the API ignores an empty list. */
  isEmptied: boolean;
  onDiscard: () => void;
  /** Takes back the change of one variable. */
  onUndo: (name: string) => void;
  onDeployed: (deployed: Environment) => void;
}

/** The collected changes, what deploying them does, and the buttons to deploy or discard them. Empty without changes. */
function StagedChanges(props: StagedProps) {
  const { deployment, staged, isEmptied } = props;
  const lines = Object.entries(props.lines).filter(([, names]) => names.length > 0);
  const deploy = useDeploy(props);
  if (lines.length === 0) return null;
  const count = lines.flatMap(([, names]) => names).length;
  const problem = problemOf(staged, deployment.source);
  const hidden = ({ name }: Secret) => ({ name, value: "…" });
  const deployment_id = deployment.id;
  const call = props.hasNewReferences
    ? {
        id: "createRevision" as const,
        input: { deployment_id, body: { secrets: staged.secrets.map(hidden), secret_references: staged.references } },
      }
    : {
        id: "changeVariables" as const,
        input: { deployment_id, body: { ...props.changes, set: props.changes.set?.map(hidden) } },
        cli: `npx pierhead env import ${deployment_id} .env`,
      };
  return (
    <section className="note staged" aria-label="Staged changes">
      <p className="staged-what">
        <b>
          {count} {count === 1 ? "change" : "changes"}, not deployed yet
        </b>
        {lines.map(([word, names]) => (
          <span key={word}>
            {word}:{" "}
            {names.map((name) => (
              <button
                key={name}
                type="button"
                className="quiet undo"
                aria-label={`Undo the change of ${name}`}
                title="Undo this change"
                onClick={() => props.onUndo(name)}
              >
                <code>{name}</code> <Undo2 size={12} />
              </button>
            ))}
          </span>
        ))}
      </p>
      <p className="softer">
        Deploying runs{" "}
        {isAskedFor(deployment, props.changes) ? "the code that failed without them" : "the current code"} with these
        variables. Nothing is built, unless a variable for browsers changed (<code>NEXT_PUBLIC_*</code>).{" "}
        <WillRestart deployment={deployment} />
      </p>
      {problem !== null && <p className="bad-text">{problem}</p>}
      {isEmptied && <p className="soft">Keep at least one variable, because the API ignores an empty list.</p>}
      <div className="row">
        <button type="button" onClick={props.onDiscard}>
          Discard
        </button>
        <button
          type="button"
          className="primary"
          disabled={problem !== null || isEmptied || deploy.isPending}
          onClick={() => deploy.mutate()}
        >
          Deploy these changes
        </button>
        <CopyAs call={call} />
      </div>
    </section>
  );
}

/** Whether the newest revision failed because variables were missing that are set now. Its code runs then. */
const isAskedFor = ({ health }: Deployment, { set }: ChangeVariables) =>
  health.failure?.code === "variables_missing" &&
  (set ?? []).some(({ name }) => health.failure?.variables.includes(name) === true);

/** Says what a deploy of the changes restarts. */
function WillRestart({ deployment: { active_revision_id: active, name } }: { deployment: Deployment }) {
  if (active === null) return <>No replica runs yet, so nothing restarts.</>;
  return (
    <>
      New replicas of {name} start, and the current revision serves until they are healthy. No other deployment
      restarts.
    </>
  );
}

function useDeploy({ deployment, base, staged, changes, hasNewReferences, onDeployed }: StagedProps) {
  const { client } = useSession();
  const { notify, notifyError } = useToasts();
  const navigate = useNavigate();
  return useMutation({
    mutationFn: async () => {
      if (!hasNewReferences) {
        const changed = await client.changeVariables({ deployment_id: deployment.id, body: changes });
        return { secrets: changed.secrets, references: changed.secret_references ?? [] };
      }
      // This call replaces the whole list of variables, so changes of other users since the page was opened are merged.
      return client.changeAsRead({ deployment_id: deployment.id }, async (now, call) => {
        const next = mergeChanges({ secrets: now.secrets, references: now.secret_references ?? [] }, base, staged);
        if (next.secrets.length === 0 && now.secrets.length > 0)
          throw new Error("Keep at least one variable, because the API ignores an empty list.");
        const body = {
          secrets: next.secrets.filter(({ name }) => name !== ""),
          ...(hasNewReferences && { secret_references: next.references }),
        };
        await client.createRevision({ deployment_id: deployment.id, body }, call);
        return next;
      });
    },
    onError: notifyError,
    onSuccess: (deployed) => {
      onDeployed(deployed);
      notify("Deploying the changed variables.");
      void queries.invalidateQueries({ queryKey: ["deployment", deployment.id] });
      void navigate({
        to: "/o/$tenantId/host/deployments/$id/$part",
        params: { tenantId: deployment.tenant_id, id: deployment.id, part: "revisions" },
      });
    },
  });
}

function ReadOnly({ deployment }: { deployment: Deployment }) {
  return (
    <>
      <Notice>Your role is read-only. It shows the names of variables but not their values.</Notice>
      <ul>
        {deployment.secrets.map(({ name }) => (
          <li key={name}>
            <code>{name}</code>
          </li>
        ))}
      </ul>
      <References deployment={deployment} />
    </>
  );
}
