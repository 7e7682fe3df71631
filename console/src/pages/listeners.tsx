import { useState } from "react";
import type { Listener } from "../../../src/contract/listeners/listener.ts";
import { labelsText } from "../../../src/domain/listener-labels.ts";
import { CommandLine } from "../parts/command-line.tsx";
import { TextField } from "../parts/fields.tsx";
import { LabelTags, labelsFrom } from "../parts/labels.tsx";
import { Notice } from "../parts/notices.tsx";
import { ActionButton, FormDialog, ResourcePage } from "../parts/resource-page.tsx";
import { Status } from "../parts/status.tsx";
import { Ago } from "../parts/time.tsx";
import { baseUrl } from "../server.ts";
import { useSession } from "../session.tsx";

const renewMs = 5_000;

const words: Record<Listener["status"], string> = {
  NEW: "Never connected",
  CONNECTED: "Connected",
  DISCONNECTED: "Lost",
};

/** The listeners of the workspace and their health. */
export function ListenersPage() {
  const { client, workspaceId, mayAdminister } = useSession();
  const queryKey = ["listeners", workspaceId];
  return (
    <ResourcePage<Listener>
      title="Listeners"
      about="Programs that run agents on hosts and in clusters of yours. They connect to this server."
      teach={
        <p>
          The built-in listener runs agents on this server and is not listed here. Install your own listener to run
          agents in your cluster. It connects to this server, so the cluster needs no open port.
        </p>
      }
      queryKey={queryKey}
      read={(signal) => client.all("listListeners", {}, { signal })}
      call={{ id: "listListeners", input: { limit: 100 } }}
      idOf={({ id }) => id}
      refetchMs={renewMs}
      columns={[
        {
          name: "Cluster",
          show: ({ compute_id, compute_config: { k8s_namespaces: namespaces }, version }) => (
            <div>
              <div>{compute_id}</div>
              <div className="softer">
                {namespaces === undefined || namespaces === null
                  ? "Any namespace"
                  : `${namespaces.length === 1 ? "Namespace" : "Namespaces"} ${namespaces.join(", ")}`}
              </div>
              {version !== null && <div className="softer">Version {version}</div>}
            </div>
          ),
        },
        {
          name: "Health",
          show: ({ status, drain, last_seen_at }) => (
            <div>
              {drain ? <Status of="draining" text="Draining" /> : <Status of={status} text={words[status]} />}
              {last_seen_at !== null && (
                <div className="softer">
                  seen <Ago at={last_seen_at} />
                </div>
              )}
            </div>
          ),
        },
        {
          name: "Labels",
          show: ({ labels }) =>
            Object.keys(labels).length === 0 ? <span className="softer">None</span> : <LabelTags labels={labels} />,
        },
        {
          name: "Builds into",
          show: ({ image_registry }) => image_registry ?? <span className="softer">Takes only images</span>,
        },
      ]}
      {...(mayAdminister && {
        actions: (listener) => (
          <div className="row end">
            <EditLabels listener={listener} />
            <NewKey listener={listener} />
            <Drain listener={listener} />
            <ActionButton
              text="Delete"
              label={`Delete ${listener.compute_id}`}
              isDanger
              confirm={`${listener.compute_id} can no longer connect to this server. Delete its deployments first.`}
              act={() => client.deleteListener({ listener_id: listener.id })}
              done={`${listener.compute_id} was deleted.`}
              renews={queryKey}
            />
          </div>
        ),
        children: <NewListener />,
      })}
    />
  );
}

function NewListener() {
  const { client, workspaceId } = useSession();
  const [name, setName] = useState("");
  const [namespaces, setNamespaces] = useState("");
  const [text, setText] = useState("");
  const labels = labelsFrom(text);
  const list = namespaces
    .split(",")
    .map((one) => one.trim())
    .filter((one) => one !== "");
  const body = {
    compute_type: "k8s" as const,
    compute_id: name,
    compute_config: list.length === 0 ? {} : { k8s_namespaces: list },
    ...(labels !== null && Object.keys(labels).length > 0 && { labels }),
  };
  return (
    <FormDialog
      open="New listener"
      title="New listener"
      submit="Create"
      isReady={name !== "" && labels !== null}
      call={{ id: "createListener", input: { body } }}
      send={() => client.createListener({ body })}
      renews={["listeners", workspaceId]}
      result={({ listener_key }) => <InstallCommands listenerKey={listener_key} namespaces={list} />}
    >
      <TextField label="Cluster" value={name} onValue={setName} hint="A name that is unique in the workspace." />
      <TextField
        label="Namespaces"
        value={namespaces}
        onValue={setNamespaces}
        hint="Separate with commas. Leave empty for any namespace."
      />
      <LabelsField text={text} onText={setText} />
    </FormDialog>
  );
}

function LabelsField({ text, onText }: { text: string; onText: (text: string) => void }) {
  return (
    <TextField
      label="Labels"
      value={text}
      onValue={onText}
      placeholder="region=eu, gpu=l4"
      problem={labelsFrom(text) === null ? "A label is a key, =, and a value, such as region=eu." : null}
      hint="New deployments choose a listener by its labels. Separate with commas."
    />
  );
}

/** Labels decide where later deployments go. */
function EditLabels({ listener }: { listener: Listener }) {
  const { client, workspaceId } = useSession();
  const { id, compute_id } = listener;
  const [text, setText] = useState("");
  const labels = labelsFrom(text);
  const body = { labels: labels ?? {} };
  return (
    <FormDialog
      isQuiet
      open="Labels"
      label={`Labels of ${compute_id}`}
      title={`Labels of ${compute_id}`}
      submit="Save"
      isReady={labels !== null}
      // Another user may have changed them since this page was loaded.
      onOpen={() => setText(labelsText(listener.labels))}
      call={{ id: "patchListener", input: { listener_id: id, body } }}
      send={() => client.patchListener({ listener_id: id, body })}
      renews={["listeners", workspaceId]}
    >
      <LabelsField text={text} onText={setText} />
      <p className="soft">Deployments that run on this listener stay there.</p>
    </FormDialog>
  );
}

/** Takes a listener out of service, for hours in which its cluster is rebuilt, and back. */
function Drain({ listener: { id, compute_id: name, drain: isDraining } }: { listener: Listener }) {
  const { client, workspaceId } = useSession();
  const set = (drain: boolean) => () => client.patchListener({ listener_id: id, body: { drain } });
  const renews = ["listeners", workspaceId];
  if (isDraining)
    return (
      <ActionButton text="Resume" label={`Resume ${name}`} act={set(false)} done={`${name} resumes.`} renews={renews} />
    );
  return (
    <ActionButton
      text="Drain"
      label={`Drain ${name}`}
      confirm={`${name} changes nothing in its cluster until you resume it. Agents keep running where they are. Deploys and restarts on it wait, for a day at most. Labels choose another connected listener for new deployments.`}
      act={set(true)}
      done={`${name} drains within half a minute.`}
      undo={set(false)}
      renews={renews}
    />
  );
}

/** For a key that was lost or seen by others. */
function NewKey({ listener }: { listener: Listener }) {
  const { client, workspaceId } = useSession();
  const { id, compute_id, status, compute_config } = listener;
  return (
    <FormDialog
      isQuiet
      open="New key"
      label={`New key for ${compute_id}`}
      title={`New key for ${compute_id}`}
      submit="Create"
      isReady
      call={{ id: "replaceListenerKey", input: { listener_id: id } }}
      send={() => client.replaceListenerKey({ listener_id: id })}
      renews={["listeners", workspaceId]}
      result={({ listener_key }) => (
        <InstallCommands listenerKey={listener_key} namespaces={compute_config.k8s_namespaces ?? []} />
      )}
    >
      <p>
        {status === "NEW"
          ? "This listener has never connected. Create a key to see its install commands again."
          : "Install the listener again with its new key."}{" "}
        The old key is valid for another hour.
      </p>
    </FormDialog>
  );
}

/** Shows the key once, in the commands that install its listener. */
function InstallCommands({ listenerKey, namespaces }: { listenerKey: string; namespaces: readonly string[] }) {
  const agents = namespaces.join(",") || "agents";
  return (
    <>
      <Notice kind="good">
        Copy the key now, because it is shown only once. Either command installs the listener in the cluster:
      </Notice>
      <CommandLine
        text={[
          "helm install listener deploy/helm/pierhead-listener",
          `-n pierhead-listener --create-namespace --set 'namespaces={${agents}}'`,
          `--set controlPlaneUrl='${baseUrl}' --set listenerKey='${listenerKey}'`,
        ].join(" \\\n  ")}
      />
      <CommandLine
        text={[
          `(umask 077; printf %s '${listenerKey}' > listener.key)`,
          `npx pierhead listener install --print --url '${baseUrl}' --key-file listener.key \\`,
          `  --agents ${agents} | kubectl apply -f -`,
        ].join("\n")}
      />
      <p className="soft">To run the listener on a host without a cluster:</p>
      <CommandLine text={`PIERHEAD_LISTENER_KEY='${listenerKey}' npx pierhead listener --url '${baseUrl}'`} />
    </>
  );
}
