import { useMutation, useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { Fragment, useState } from "react";
import type { Deployment, DeploymentTier, PatchDeployment } from "../../../src/contract/deployments/deployment.ts";
import { checkCustomUrl } from "../../../src/domain/custom-url.ts";
import { effectiveSizes } from "../../../src/domain/sizes.ts";
import { CopyAs } from "../parts/copy-as.tsx";
import { ConfirmByName } from "../parts/dialog.tsx";
import { SelectField, TextField } from "../parts/fields.tsx";
import { Notice } from "../parts/notices.tsx";
import { useToasts } from "../parts/toasts.tsx";
import { typeText } from "../parts/words.ts";
import { queries, textOf } from "../server.ts";
import { useSession } from "../session.tsx";

/** The settings that need no new source, the addresses of the deployment, and its deletion. */
export function DeploymentSettingsPart({ deployment }: { deployment: Deployment }) {
  const { mayChange } = useSession();
  return (
    <>
      <Addresses deployment={deployment} />
      {mayChange && deployment.source === "external_docker" && <CustomAddress deployment={deployment} />}
      {mayChange && <General deployment={deployment} />}
      {mayChange && <Scale deployment={deployment} />}
      {mayChange && <Danger deployment={deployment} />}
      {!mayChange && <Notice>Your role is read-only. Ask an admin for the deployer role to change settings.</Notice>}
    </>
  );
}

function Addresses({ deployment }: { deployment: Deployment }) {
  const { url, id, source_config: config, source_revision_config: source, image_version } = deployment;
  const facts = {
    Address: url === null ? "None yet" : <span className="mono">{url}</span>,
    ID: <span className="mono">{id}</span>,
    Type: config.deployment_type === null ? null : typeText(config.deployment_type),
    "Agent server": image_version === null ? null : `Version ${image_version}`,
    Listener:
      config.listener_id === null ? "Built-in, on this server" : <span className="mono">{config.listener_id}</span>,
    "Config file":
      source.langgraph_config_path === null ? null : <span className="mono">{source.langgraph_config_path}</span>,
  };
  return (
    <section className="card">
      <h2>About this deployment</h2>
      <dl className="facts">
        {Object.entries(facts).map(
          ([name, value]) =>
            value !== null && (
              <Fragment key={name}>
                <dt>{name}</dt>
                <dd>{value}</dd>
              </Fragment>
            ),
        )}
      </dl>
      <p className="softer">
        The address stays the same for all revisions. Traffic moves to a new revision when it is healthy.
      </p>
    </section>
  );
}

/** A custom address, which only image deployments can have. The user has to route it to the deployment. */
function CustomAddress({ deployment }: { deployment: Deployment }) {
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
      <h2>Custom address</h2>
      <TextField
        label="Serving address"
        type="url"
        value={address}
        onValue={setTyped}
        problem={problem}
        hint="Clients use this address from now on. Configure your DNS and your proxy to route it to the deployment. Leave the field empty to restore the server's address. Saving creates no revision."
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
  const { notify, notifyError } = useToasts();
  return useMutation({
    mutationFn: () => client.patchDeployment({ deployment_id: deployment.id, body }),
    onError: notifyError,
    onSuccess: (changed) => {
      notify("Saved.");
      queries.setQueryData(["deployment", deployment.id], changed);
      onSaved();
    },
  });
}

const tiers: { value: DeploymentTier | ""; text: string }[] = [
  { value: "", text: "Default of the type" },
  { value: "SERVERLESS_S", text: "Serverless, small" },
  { value: "SERVERLESS_M", text: "Serverless, medium" },
  { value: "SERVERLESS_L", text: "Serverless, large" },
  { value: "DEDICATED_S", text: "Dedicated, small" },
  { value: "DEDICATED_M", text: "Dedicated, medium" },
  { value: "DEDICATED_L", text: "Dedicated, large" },
];

/** A field shows the current value until the user types in it, so it neither hides nor undoes the changes of other users. */
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
        label="Display name"
        placeholder={deployment.name}
        value={name}
        onValue={(text) => setTyped({ ...typed, name: text })}
        hint={`The name in the API stays ${deployment.name}.`}
      />
      {deployment.source === "github" && (
        <TextField
          label="Tracked branch"
          value={branch}
          onValue={(text) => setTyped({ ...typed, branch: text })}
          hint="The branch that the deployment follows. Saving creates no revision."
        />
      )}
      {deployment.deployment_tier !== null && (
        <SelectField
          label="Size"
          value={tier}
          onValue={(chosen) => setTyped({ ...typed, tier: chosen })}
          hint="A new size creates a revision from the same source."
          options={tiers}
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

/** The numbers of replicas, for deployments that may run several. */
function Scale({ deployment }: { deployment: Deployment }) {
  const { client } = useSession();
  const { notify, notifyError } = useToasts();
  const [typed, setTyped] = useState<{ min?: string; max?: string }>({});
  const { source, source_config: config } = deployment;
  const hasSpec = source === "external_docker" || config.listener_id !== null;
  const type = hasSpec ? null : config.deployment_type;
  const { minReplicas, maxReplicas } = effectiveSizes(type, config.resource_spec);
  const min = typed.min ?? String(minReplicas);
  const max = typed.max ?? String(maxReplicas);
  const problem = replicasProblem(min, max);
  const input = { deployment_id: deployment.id, body: { min_replicas: Number(min), max_replicas: Number(max) } };
  const isChanged = Number(min) !== minReplicas || Number(max) !== maxReplicas;
  const save = useMutation({
    mutationFn: () => client.scaleDeployment(input),
    onError: notifyError,
    onSuccess: (changed) => {
      notify(min === max ? `Scaling to ${min} replicas.` : `Scaling to ${min} to ${max} replicas.`);
      queries.setQueryData(["deployment", deployment.id], changed);
      setTyped({});
    },
  });
  if (type !== null && type !== "prod") return null;
  return (
    <form
      className="card"
      onSubmit={(event) => {
        event.preventDefault();
        save.mutate();
      }}
    >
      <h2>Replicas</h2>
      <TextField
        label="Always running"
        inputMode="numeric"
        value={min}
        onValue={(text) => setTyped({ ...typed, min: text })}
      />
      <TextField
        label="At most, by load"
        inputMode="numeric"
        value={max}
        onValue={(text) => setTyped({ ...typed, max: text })}
        problem={problem}
        hint="Saving creates a revision with the code and the variables that serve."
      />
      <div className="row">
        <button type="submit" className="primary" disabled={!isChanged || problem !== null || save.isPending}>
          Save
        </button>
        <CopyAs
          call={{
            ...{ id: "scaleDeployment", input },
            cli: `npx pierhead scale ${deployment.id} ${min === max ? min : `${min}-${max}`}`,
          }}
        />
      </div>
    </form>
  );
}

function replicasProblem(min: string, max: string): string | null {
  const isCount = (text: string) => /^\d+$/.test(text) && Number(text) >= 1 && Number(text) <= 100;
  if (!isCount(min) || !isCount(max)) return "A number from 1 to 100.";
  return Number(min) > Number(max) ? "Not below the number that always runs." : null;
}

function Danger({ deployment }: { deployment: Deployment }) {
  const { client } = useSession();
  const { notify, notifyError } = useToasts();
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
    onError: notifyError,
    onSuccess: () => {
      notify(`${deployment.name} is being deleted.`);
      void queries.invalidateQueries({ queryKey: ["deployments"] });
      void navigate({ to: "/host/deployments" });
    },
  });
  const count = revisions.data?.resources.length ?? 0;
  return (
    <section className="card">
      <h2>Delete deployment</h2>
      <p>Stops the replicas and deletes all data of this deployment.</p>
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
          action="Delete deployment"
          isBusy={remove.isPending}
          onConfirm={() => remove.mutate()}
          onClose={() => setAsking(false)}
        >
          <p>This cannot be undone. It deletes:</p>
          <ul>
            <li>its replicas with their requests in progress, and the address {deployment.url}</li>
            <li>{count === 100 ? "100 or more" : count} revisions with their build logs, so you cannot roll back</li>
            <li>its database and the state of its threads</li>
            <li>{deployment.secrets.length} variables, and its log lines and charts</li>
          </ul>
          {deployment.tracer_session_id !== null && (
            <label className="row">
              <input type="checkbox" checked={withTraces} onChange={(event) => setWithTraces(event.target.checked)} />{" "}
              Also delete its tracing project
            </label>
          )}
        </ConfirmByName>
      )}
    </section>
  );
}
