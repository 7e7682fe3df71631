import { useSearch } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";
import type { Deployment, Secret, SecretReference } from "../../../src/contract/deployments/deployment.ts";
import { type Environment, mergeChanges } from "../environment.ts";
import { Notice } from "../parts/notices.tsx";
import { ReferencesEditor } from "../parts/references-editor.tsx";
import { SharedGroups } from "../parts/shared-groups.tsx";
import { StagedChanges } from "../parts/staged-bar.tsx";
import { VariablesEditor } from "../parts/variables-editor.tsx";
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
  const undo = (name: string) => setStaged(withoutChange(name, staged, base));
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
        <VariablesEditor
          source={deployment.source}
          variables={rows.shown}
          onChange={rows.change}
          markOf={markOf}
          removed={{ names: secretChanges.removed, onRestore: undo }}
        />
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
        onUndo={undo}
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
