import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { Webhook } from "../../../src/contract/webhooks/webhook.ts";
import { CommandLine } from "../parts/command-line.tsx";
import { shellWord } from "../parts/copy-as.tsx";
import { Dialog } from "../parts/dialog.tsx";
import { SelectField, TextField } from "../parts/fields.tsx";
import { Failure, Loading, Notice } from "../parts/notices.tsx";
import { ActionButton, FormDialog, ResourcePage } from "../parts/resource-page.tsx";
import { Status } from "../parts/status.tsx";
import { Ago } from "../parts/time.tsx";
import { useSession } from "../session.tsx";

/** The URLs that receive events, and their deliveries. */
export function WebhooksPage() {
  const { client, workspaceId, mayChange } = useSession();
  const [opened, setOpened] = useState<Webhook | null>(null);
  const queryKey = ["webhooks", workspaceId];
  if (!mayChange)
    return <Notice kind="warn">Your role is read-only. Ask an admin for the deployer role to use webhooks.</Notice>;
  return (
    <>
      <ResourcePage
        title="Webhooks"
        about="Signed events about deployments and revisions, sent to your URLs in order."
        teach={<p>A webhook sends signed events about deployments and revisions to your URL, in order.</p>}
        queryKey={queryKey}
        read={(signal) => client.all("listWebhooks", {}, { signal })}
        call={{ id: "listWebhooks", input: { limit: 100 }, cli: "npx pierhead webhooks list" }}
        idOf={({ id }) => id}
        columns={[
          {
            name: "URL",
            show: ({ url, description, format }) => (
              <div className="url-cell">
                {url}
                <div className="softer">
                  {formats[format].short}
                  {description !== null && ` · ${description}`}
                </div>
              </div>
            ),
          },
          { name: "Events", show: ({ types }) => types?.map(eventName).join(", ") ?? "All events" },
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

/** Returns a type of events as words, such as `alert firing`. */
const eventName = (type: string) => type.replaceAll(/[._]/g, " ");

function stateOf({ enabled, disabled_reason, failing_since }: Webhook) {
  if (!enabled)
    return <span className="bad-text">Disabled{disabled_reason === null ? "" : `: ${disabled_reason}`}</span>;
  return failing_since === null ? (
    <Status of="active" text="Enabled" />
  ) : (
    <span className="bad-text">
      Failing since <Ago at={failing_since} />
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
        done="Sending a test event."
        renews={["deliveries", id]}
      />
      <ActionButton
        text={enabled ? "Disable" : "Enable"}
        label={`${enabled ? "Disable" : "Enable"} ${url}`}
        act={() => client.patchWebhook({ webhook_id: id, body: { enabled: !enabled } })}
        done={`${url} is ${enabled ? "disabled" : "enabled"}.`}
        undo={() => client.patchWebhook({ webhook_id: id, body: { enabled } })}
        renews={renews}
      />
      <ActionButton
        text="Delete"
        label={`Delete ${url}`}
        isDanger
        confirm={`${url} receives no more events, and its delivery log is deleted.`}
        act={() => client.deleteWebhook({ webhook_id: id })}
        done="The webhook was deleted."
        renews={renews}
      />
    </>
  );
}

type Format = Webhook["format"];

/** The forms of the messages. The address field asks for what each needs. */
const formats: Record<Format, { text: string; short: string; label: string; placeholder: string; hint: string }> = {
  standard: {
    text: "Signed JSON to a URL",
    short: "Signed JSON",
    label: "URL",
    placeholder: "https://",
    hint: "Receives all events, signed as Standard Webhooks.",
  },
  slack: {
    text: "Slack",
    short: "Slack",
    label: "URL of an incoming webhook in Slack",
    placeholder: "https://hooks.slack.com/services/…",
    hint: "Receives the beginning and the end of alerts as text.",
  },
  email: {
    text: "Mail",
    short: "Mail",
    label: "Mail address",
    placeholder: "oncall@example.com",
    hint: "Receives the beginning and the end of alerts. The operator has to configure SMTP.",
  },
};

const formatOptions = (Object.keys(formats) as Format[]).map((value) => ({ value, text: formats[value].text }));

function NewWebhook() {
  const { client, workspaceId } = useSession();
  const [format, setFormat] = useState<Format>("standard");
  const [address, setAddress] = useState("");
  const [description, setDescription] = useState("");
  const { label, placeholder, hint } = formats[format];
  const url = format === "email" ? `mailto:${address.trim()}` : address.trim();
  const body = { url, ...(format === "slack" && { format }), ...(description !== "" && { description }) };
  return (
    <FormDialog
      open="New webhook"
      title="New webhook"
      submit="Create"
      isReady={format === "email" ? /^\S+@\S+$/.test(address.trim()) : /^https?:\/\/./.test(url)}
      call={{ id: "createWebhook", input: { body }, cli: commandOf(url, format, description) }}
      send={() => client.createWebhook({ body })}
      renews={["webhooks", workspaceId]}
      result={({ secret, format: made }) =>
        made === "standard" ? (
          <>
            <Notice kind="good">Copy this signing secret now, because it is shown only once.</Notice>
            <CommandLine text={secret} />
          </>
        ) : (
          <Notice kind="good">Created. Send a test to see a message arrive.</Notice>
        )
      }
    >
      <SelectField label="Sends" value={format} onValue={setFormat} options={formatOptions} />
      <TextField
        label={label}
        type={format === "email" ? "email" : "url"}
        value={address}
        onValue={setAddress}
        placeholder={placeholder}
        hint={hint}
      />
      <TextField label="Description" value={description} onValue={setDescription} />
    </FormDialog>
  );
}

function commandOf(url: string, format: Format, description: string): string {
  const slack = format === "slack" ? " --slack" : "";
  const what = description === "" ? "" : ` --description ${shellWord(description)}`;
  return `npx pierhead webhooks create ${shellWord(url || "URL")}${slack}${what}`;
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
      {log.data?.items.length === 0 && (
        <p className="soft">There are no deliveries yet. Send a test to check the URL.</p>
      )}
      <ul className="deliveries plain-list" aria-label="Deliveries">
        {log.data?.items.map(({ id, type, status, attempts, created_at, error, ...response }) => (
          <li key={id}>
            <div className="delivery">
              <Status of={status} />
              <span>{eventName(type)}</span>
              <span className="softer">
                <Ago at={created_at} />
              </span>
              <span className="softer">
                {attempts} {attempts === 1 ? "attempt" : "attempts"}
                {response.response_status === null
                  ? ""
                  : `, response ${response.response_status}, ${response.response_bytes ?? 0} bytes`}
              </span>
              <ActionButton
                text="Send again"
                label={`Send again: ${type}`}
                act={() => client.redeliverWebhook({ webhook_id: webhook.id, delivery_id: id })}
                done="Sending the delivery again."
                renews={queryKey}
              />
            </div>
            {(error ?? response.response_text) !== null && <pre>{error ?? response.response_text}</pre>}
          </li>
        ))}
      </ul>
    </Dialog>
  );
}
