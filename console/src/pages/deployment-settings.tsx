import { useMutation, useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";
import type { Deployment, DeploymentTier, PatchDeployment } from "../../../src/contract/deployments/deployment.ts";
import { checkCustomUrl } from "../../../src/domain/custom-url.ts";
import { CopyAs } from "../parts/copy-as.tsx";
import { ConfirmByName } from "../parts/dialog.tsx";
import { SelectField, TextField } from "../parts/fields.tsx";
import { Note } from "../parts/notes.tsx";
import { useToasts } from "../parts/toasts.tsx";
import { queries, textOf } from "../server.ts";
import { useSession } from "../session.tsx";

/** What can change without new source, where the deployment answers, and its end. */
export function DeploymentSettingsPart({ deployment }: { deployment: Deployment }) {
  const { mayChange } = useSession();
  return (
    <>
      <Addresses deployment={deployment} />
      {mayChange && deployment.source === "external_docker" && <OwnAddress deployment={deployment} />}
      {mayChange && <General deployment={deployment} />}
      {mayChange && <Danger deployment={deployment} />}
      {!mayChange && <Note>Your key may only read.</Note>}
    </>
  );
}

function Addresses({ deployment }: { deployment: Deployment }) {
  const { url, id, source_config: config, image_version } = deployment;
  const facts = {
    Address: url ?? "none yet",
    Id: id,
    Type: config.deployment_type ?? "–",
    "Agent server": image_version ?? "–",
    Listener: config.listener_id ?? "built in",
    "Config file": deployment.source_revision_config.langgraph_config_path ?? "–",
  };
  return (
    <section className="card">
      <h2>Where it answers</h2>
      <table>
        <tbody>
          {Object.entries(facts).map(([name, value]) => (
            <tr key={name}>
              <th scope="row">{name}</th>
              <td>{value}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <p className="soft">The address stays the same over all revisions; traffic moves when a new one is healthy.</p>
    </section>
  );
}

/** Only images may be given an address by their users; whoever names one leads it here. */
function OwnAddress({ deployment }: { deployment: Deployment }) {
  const [typed, setTyped] = useState<string>();
  const address = typed ?? deployment.url ?? "";
  const body: PatchDeployment = { source_config: { custom_url: address.trim() } };
  const save = useSave(deployment, body, () => setTyped(undefined));
  const isChanged = typed !== undefined && typed.trim() !== deployment.url;
  const problem = isChanged && address.trim() !== "" ? addressProblem(address.trim()) : null;
  return (
    <form
      className="card"
      onSubmit={(event) => {
        event.preventDefault();
        save.mutate();
      }}
    >
      <h2>An address of your own</h2>
      <TextField
        label="Serving address"
        type="url"
        value={address}
        onValue={setTyped}
        problem={problem}
        hint="What clients are told from then on. Your name server and your proxy have to lead it to the deployment. Left empty, it is the server's own again. Makes no revision."
      />
      <div className="row">
        <button type="submit" className="primary" disabled={!isChanged || problem !== null || save.isPending}>
          Save
        </button>
        <CopyAs call={{ id: "patchDeployment", input: { deployment_id: deployment.id, body } }} />
      </div>
    </form>
  );
}

function addressProblem(address: string): string | null {
  try {
    checkCustomUrl(address);
    return null;
  } catch (error) {
    return textOf(error);
  }
}

function useSave(deployment: Deployment, body: PatchDeployment, onSaved: () => void) {
  const { client } = useSession();
  const { say, fail } = useToasts();
  return useMutation({
    mutationFn: () => client.patchDeployment({ deployment_id: deployment.id, body }),
    onError: fail,
    onSuccess: (changed) => {
      say("Saved.");
      queries.setQueryData(["deployment", deployment.id], changed);
      onSaved();
    },
  });
}

const tiers: (DeploymentTier | "")[] = [
  "",
  "SERVERLESS_S",
  "SERVERLESS_M",
  "SERVERLESS_L",
  "DEDICATED_S",
  "DEDICATED_M",
  "DEDICATED_L",
];

/** A field shows what is there by now until something is typed in it: what others change is neither hidden nor undone. */
function General({ deployment }: { deployment: Deployment }) {
  const [typed, setTyped] = useState<{ name?: string; branch?: string; tier?: DeploymentTier | "" }>({});
  const name = typed.name ?? deployment.display_name ?? "";
  const branch = typed.branch ?? deployment.source_config.repo_branch ?? "";
  const tier = typed.tier ?? deployment.deployment_tier ?? "";
  const body: PatchDeployment = {
    ...(name.trim() !== "" && name !== deployment.display_name && { display_name: name.trim() }),
    ...(branch.trim() !== "" && branch !== deployment.source_config.repo_branch && { tracked_repo_ref: branch.trim() }),
    ...(tier !== "" && tier !== deployment.deployment_tier && { deployment_tier: tier }),
  };
  const save = useSave(deployment, body, () => setTyped({}));
  return (
    <form
      className="card"
      onSubmit={(event) => {
        event.preventDefault();
        save.mutate();
      }}
    >
      <h2>General</h2>
      <TextField
        label="Shown name"
        value={name}
        onValue={(text) => setTyped({ ...typed, name: text })}
        hint={`Known to the API as ${deployment.name}, which cannot change.`}
      />
      {deployment.source === "github" && (
        <TextField
          label="Tracked branch"
          value={branch}
          onValue={(text) => setTyped({ ...typed, branch: text })}
          hint="Moves what is followed; makes no revision."
        />
      )}
      {deployment.deployment_tier !== null && (
        <SelectField
          label="Size"
          value={tier}
          onValue={(chosen) => setTyped({ ...typed, tier: chosen })}
          hint="Another size makes a revision of the same source."
          options={tiers.map((value) => ({ value, text: value === "" ? "as its type says" : value }))}
        />
      )}
      <div className="row">
        <button type="submit" className="primary" disabled={Object.keys(body).length === 0 || save.isPending}>
          Save
        </button>
        <CopyAs call={{ id: "patchDeployment", input: { deployment_id: deployment.id, body } }} />
      </div>
    </form>
  );
}

function Danger({ deployment }: { deployment: Deployment }) {
  const { client } = useSession();
  const { say, fail } = useToasts();
  const navigate = useNavigate();
  const [isAsking, setAsking] = useState(false);
  const [withTraces, setWithTraces] = useState(false);
  const revisions = useQuery({
    queryKey: ["deployment", deployment.id, "revisions", 100],
    queryFn: ({ signal }) => client.listRevisions({ deployment_id: deployment.id, limit: 100 }, { signal }),
    enabled: isAsking,
  });
  const input = { deployment_id: deployment.id, delete_tracing_project: withTraces };
  const remove = useMutation({
    mutationFn: () => client.deleteDeployment(input),
    onError: fail,
    onSuccess: () => {
      say(`${deployment.name} is being deleted.`);
      void queries.invalidateQueries({ queryKey: ["deployments"] });
      void navigate({ to: "/host/deployments" });
    },
  });
  const count = revisions.data?.resources.length ?? 0;
  return (
    <section className="card">
      <h2>Delete</h2>
      <p>Ends its replicas and removes everything that is kept of it.</p>
      <div className="row">
        <button type="button" className="danger" onClick={() => setAsking(true)}>
          Delete this deployment …
        </button>
        <CopyAs
          call={{
            ...{ id: "deleteDeployment", input },
            cli: withTraces ? undefined : `npx pierhead delete ${deployment.id}`,
          }}
        />
      </div>
      {isAsking && (
        <ConfirmByName
          title={`Delete ${deployment.name}`}
          name={deployment.name}
          action="Delete it and all of this"
          isBusy={remove.isPending}
          onConfirm={() => remove.mutate()}
          onClose={() => setAsking(false)}
        >
          <p>This cannot be undone. With it go:</p>
          <ul>
            <li>its replicas, with requests that are under way, and the address {deployment.url}</li>
            <li>
              {count === 100 ? "100 or more" : count} revisions with their build logs: there is nothing to roll back to
            </li>
            <li>its database and the state of its threads</li>
            <li>{deployment.secrets.length} variables, its log lines and charts</li>
          </ul>
          {deployment.tracer_session_id !== null && (
            <label className="row">
              <input type="checkbox" checked={withTraces} onChange={(event) => setWithTraces(event.target.checked)} />{" "}
              its tracing project, too
            </label>
          )}
        </ConfirmByName>
      )}
    </section>
  );
}
