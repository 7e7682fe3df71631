import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { Webhook } from "../../../src/contract/webhooks/webhook.ts";
import { CommandLine } from "../parts/command-line.tsx";
import { shellWord } from "../parts/copy-as.tsx";
import { Dialog } from "../parts/dialog.tsx";
import { TextField } from "../parts/fields.tsx";
import { Failure, Loading, Note } from "../parts/notes.tsx";
import { ActionButton, FormDialog, ResourcePage } from "../parts/resource-page.tsx";
import { Status } from "../parts/status.tsx";
import { Ago } from "../parts/time.tsx";
import { useSession } from "../session.tsx";

/** Addresses that are told of events, and what they answered. */
export function WebhooksPage() {
  const { client, workspaceId, mayChange } = useSession();
  const [opened, setOpened] = useState<Webhook | null>(null);
  const queryKey = ["webhooks", workspaceId];
  if (!mayChange) return <Note kind="warn">Your key may only read; webhooks are for the role deployer.</Note>;
  return (
    <>
      <ResourcePage
        title="Webhooks"
        teach={<p>An address of yours is told, signed and in order, of what happens to deployments and revisions.</p>}
        queryKey={queryKey}
        read={(signal) => client.all("listWebhooks", {}, { signal })}
        call={{ id: "listWebhooks", input: { limit: 100 }, cli: "npx pierhead webhooks list" }}
        idOf={({ id }) => id}
        columns={[
          { name: "Address", show: ({ url }) => url },
          { name: "For", show: ({ description }) => description ?? "–" },
          { name: "Events", show: ({ types }) => types?.join(", ") ?? "all" },
          { name: "Status", show: stateOf },
        ]}
        actions={(webhook) => <Actions webhook={webhook} onOpen={() => setOpened(webhook)} />}
      >
        <NewWebhook />
      </ResourcePage>
      {opened !== null && <Deliveries webhook={opened} onClose={() => setOpened(null)} />}
    </>
  );
}

function stateOf({ enabled, disabled_reason, failing_since }: Webhook) {
  if (!enabled) return <span className="bad-text">off{disabled_reason === null ? "" : `: ${disabled_reason}`}</span>;
  return failing_since === null ? (
    "on"
  ) : (
    <span className="bad-text">
      failing since <Ago at={failing_since} />
    </span>
  );
}

function Actions({ webhook, onOpen }: { webhook: Webhook; onOpen: () => void }) {
  const { client, workspaceId } = useSession();
  const { id, url, enabled } = webhook;
  const renews = ["webhooks", workspaceId];
  return (
    <>
      <button type="button" onClick={onOpen} aria-label={`Deliveries to ${url}`}>
        Deliveries
      </button>
      <ActionButton
        text="Test"
        label={`Send a test to ${url}`}
        act={() => client.testWebhook({ webhook_id: id })}
        done="A test is on its way."
        renews={["deliveries", id]}
      />
      <ActionButton
        text={enabled ? "Switch off" : "Switch on"}
        label={`${enabled ? "Switch off" : "Switch on"} ${url}`}
        act={() => client.patchWebhook({ webhook_id: id, body: { enabled: !enabled } })}
        done={`${url} is switched ${enabled ? "off" : "on"}.`}
        undo={() => client.patchWebhook({ webhook_id: id, body: { enabled } })}
        renews={renews}
      />
      <ActionButton
        text="Delete"
        label={`Delete ${url}`}
        isDanger
        confirm={`${url} is told of nothing any more, and its log of deliveries goes.`}
        act={() => client.deleteWebhook({ webhook_id: id })}
        done="The webhook was deleted."
        renews={renews}
      />
    </>
  );
}

function NewWebhook() {
  const { client, workspaceId } = useSession();
  const [url, setUrl] = useState("");
  const [description, setDescription] = useState("");
  const body = { url, ...(description !== "" && { description }) };
  return (
    <FormDialog
      open="New webhook"
      title="New webhook"
      submit="Create"
      isReady={/^https?:\/\/./.test(url)}
      call={{ id: "createWebhook", input: { body }, cli: commandOf(url, description) }}
      send={() => client.createWebhook({ body })}
      renews={["webhooks", workspaceId]}
      result={({ secret }) => (
        <>
          <Note kind="good">This secret signs what is sent. It is shown this once.</Note>
          <CommandLine text={secret} />
        </>
      )}
    >
      <TextField label="Address" type="url" value={url} onValue={setUrl} placeholder="https://" />
      <TextField label="What it is for" value={description} onValue={setDescription} />
    </FormDialog>
  );
}

function commandOf(url: string, description: string): string {
  const what = description === "" ? "" : ` --description ${shellWord(description)}`;
  return `npx pierhead webhooks create ${shellWord(url || "URL")}${what}`;
}

const renewMs = 3_000;

function Deliveries({ webhook, onClose }: { webhook: Webhook; onClose: () => void }) {
  const { client } = useSession();
  const queryKey = ["deliveries", webhook.id];
  const log = useQuery({
    queryKey,
    queryFn: ({ signal }) => client.listWebhookDeliveries({ webhook_id: webhook.id, page_size: 30 }, { signal }),
    refetchInterval: renewMs,
  });
  return (
    <Dialog title={`Deliveries to ${webhook.url}`} onClose={onClose}>
      {log.isPending && <Loading what="the deliveries" />}
      {log.isError && <Failure error={log.error} />}
      {log.data?.items.length === 0 && <p className="soft">Nothing was sent yet. A test shows whether it arrives.</p>}
      <ul className="names" aria-label="Deliveries">
        {log.data?.items.map(({ id, type, status, attempts, created_at, response_status, error, response_text }) => (
          <li key={id}>
            <div className="row">
              <Status of={status} /> {type} <Ago at={created_at} />
              <span className="soft">
                {attempts} {attempts === 1 ? "attempt" : "attempts"}
                {response_status === null ? "" : `, answered ${response_status}`}
              </span>
              <ActionButton
                text="Send again"
                label={`Send again: ${type}`}
                act={() => client.redeliverWebhook({ webhook_id: webhook.id, delivery_id: id })}
                done="It is sent again."
                renews={queryKey}
              />
            </div>
            {(error ?? response_text) !== null && <pre>{error ?? response_text}</pre>}
          </li>
        ))}
      </ul>
    </Dialog>
  );
}
