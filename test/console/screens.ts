import type { Page } from "playwright-core";
import type { Deployment } from "../../src/contract/deployments/deployment.ts";
import type { TestServer } from "../support/server.ts";
import { addressOf, goToPart } from "./world.ts";

/** What the pictures show. */
export interface Shown {
  pierhead: TestServer;
  orders: Deployment;
  support: Deployment;
  invoices: Deployment;
  /** Threads of `support`: one that answered twice, and one that waits for a person. */
  threads: { answered: string; waiting: string };
}

export interface Screen {
  name: string;
  /** Opens the page and waits until it shows everything. */
  open(page: Page, shown: Shown): Promise<void>;
}

const at =
  (path: string, ready: (page: Page) => Promise<unknown>) =>
  async (page: Page, { pierhead }: Shown) => {
    await page.goto(pierhead.url + path);
    await ready(page);
  };

/** Waits for the page and for its list or form, if it has one. */
const heading = (name: string) => async (page: Page) => {
  await page.getByRole("heading", { name, level: 1 }).waitFor();
  await page.locator("table.list, .audit-entry, .quotas").first().waitFor();
};

/** Every page of the console, in the order of the side bar. */
export const screens: Screen[] = [
  {
    name: "deployments",
    open: at("/host/deployments", async (page) => {
      await page.getByRole("main").getByRole("link", { name: "support" }).waitFor();
      await page.getByText("% errors").first().waitFor({ state: "attached" });
    }),
  },
  {
    name: "cards",
    open: at("/host/deployments?layout=cards", async (page) => {
      await page.getByText("% errors").first().waitFor({ state: "attached" });
    }),
  },
  {
    name: "new-deployment",
    open: at("/host/new", async (page) => {
      await page.getByLabel("Plain Node server").check();
      await page.getByLabel("Name", { exact: true }).fill("orders-eu");
      await page.evaluate(() => scrollTo(0, 0));
    }),
  },
  {
    name: "deployment",
    async open(page, { pierhead, orders }) {
      await page.goto(pierhead.url + addressOf(orders));
      const revision = page.getByRole("region", { name: "Active revision" });
      await revision.getByText(/in total/).waitFor();
      await page.getByRole("region", { name: "Last 24 hours" }).getByText(/MiB$/).waitFor();
    },
  },
  {
    name: "crash",
    async open(page, { pierhead, invoices }) {
      await page.goto(pierhead.url + addressOf(invoices));
      await page.getByRole("region", { name: "Health" }).waitFor();
    },
  },
  {
    name: "revisions",
    async open(page, { pierhead, orders }) {
      await page.goto(`${pierhead.url}${addressOf(orders)}/revisions`);
      await page.locator(".revision").nth(1).waitFor();
      await page
        .getByText(/in total/)
        .first()
        .waitFor();
    },
  },
  {
    name: "rollback",
    async open(page, { pierhead, orders }) {
      await page.goto(`${pierhead.url}${addressOf(orders)}/revisions`);
      await page.getByRole("button", { name: "Roll back: revision 1" }).click();
      await page.getByRole("dialog").getByText("Changes variables").waitFor();
    },
  },
  {
    name: "failed-build",
    async open(page, { pierhead, invoices }) {
      await page.goto(`${pierhead.url}${addressOf(invoices)}/revisions`);
      await page.locator(".line.first-bad").waitFor();
    },
  },
  {
    name: "logs",
    async open(page, { pierhead, support }) {
      await page.goto(`${pierhead.url}${addressOf(support)}/logs`);
      await page.locator(".ll").nth(3).waitFor();
    },
  },
  {
    name: "charts",
    async open(page, { pierhead, orders }) {
      await page.goto(`${pierhead.url}${addressOf(orders)}/charts`);
      await page.getByRole("slider", { name: /^Latency/ }).waitFor();
    },
  },
  {
    name: "environment",
    async open(page, { pierhead, orders }) {
      await page.goto(`${pierhead.url}${addressOf(orders)}/environment`);
      await page.getByLabel("Value of CURRENCY").fill("GBP");
      await page.getByRole("button", { name: "Add a variable" }).click();
      await page.getByLabel("Name 3").fill("TAX_RATE");
      await page.getByLabel("Value of TAX_RATE").fill("0.19");
    },
  },
  {
    name: "deployment-settings",
    async open(page, { pierhead, orders }) {
      await page.goto(`${pierhead.url}${addressOf(orders)}/settings`);
      await page.getByRole("heading", { name: /Delete/ }).waitFor();
    },
  },
  {
    name: "threads",
    async open(page, { pierhead, support, threads }) {
      await page.goto(`${pierhead.url}${addressOf(support)}/threads?thread=${threads.waiting}`);
      await page.getByRole("button", { name: "Approve", exact: true }).waitFor();
    },
  },
  {
    name: "compared-runs",
    async open(page, { pierhead, support, threads }) {
      await page.goto(`${pierhead.url}${addressOf(support)}/threads?thread=${threads.answered}&view=runs`);
      await page
        .getByLabel(/^Compare run/)
        .nth(1)
        .waitFor();
      for (const box of await page.getByLabel(/^Compare run/).all()) await box.check();
      await page.getByRole("button", { name: "Compare", exact: true }).click();
      await page.getByRole("table", { name: "Two runs" }).waitFor();
    },
  },
  {
    name: "chat",
    async open(page, { pierhead, support, threads }) {
      await page.goto(`${pierhead.url}${addressOf(support)}/playground?thread=${threads.waiting}`);
      await page.getByRole("log").getByRole("button", { name: "Approve", exact: true }).waitFor();
      await page.locator(".checkpoint").nth(3).waitFor({ state: "attached" });
    },
  },
  {
    name: "state",
    async open(page, { pierhead, support, threads }) {
      await page.goto(`${pierhead.url}${addressOf(support)}/playground?thread=${threads.waiting}`);
      await page.getByRole("log").getByRole("button", { name: "Approve", exact: true }).waitFor();
      const pane = page.getByRole("button", { name: "State", exact: true });
      if (await pane.isVisible()) await pane.click();
      await page.getByRole("button", { name: "Edit and run" }).click();
      await page.getByLabel("amount").waitFor();
    },
  },
  {
    name: "configuration",
    async open(page, { pierhead, support, threads }) {
      await page.goto(`${pierhead.url}${addressOf(support)}/playground?thread=${threads.waiting}`);
      await page.getByRole("log").getByRole("button", { name: "Approve", exact: true }).waitFor();
      await page.getByRole("button", { name: "Configuration" }).click();
      await page.getByText("Keep as an assistant").click();
    },
  },
  {
    name: "log-search",
    open: at("/host/logs?span=900", (page) => page.locator(".ll").nth(5).waitFor()),
  },
  {
    name: "approvals",
    open: at("/host/approvals", (page) => page.getByRole("button", { name: "Approve", exact: true }).first().waitFor()),
  },
  {
    name: "variable-groups",
    open: at("/host/variable-groups", (page) => page.getByRole("button", { name: "Edit model-keys" }).waitFor()),
  },
  ...[
    ["keys", "API keys"],
    ["members", "Members"],
    ["audit", "Audit log"],
    ["listeners", "Listeners"],
    ["integrations", "Integrations"],
    ["webhooks", "Webhooks"],
    ["alerts", "Alerts"],
    ["quotas", "Quotas"],
  ].map(([page = "", title = ""]) => ({ name: page, open: at(`/host/${page}`, heading(title)) })),
  {
    name: "palette",
    async open(page, { pierhead, orders }) {
      await page.goto(pierhead.url + addressOf(orders));
      await page.getByRole("region", { name: "Active revision" }).waitFor();
      await page.keyboard.press("Control+k");
      await page.getByRole("dialog").getByRole("option").nth(5).waitFor();
    },
  },
  {
    name: "keyboard",
    async open(page, { pierhead, orders }) {
      await page.goto(pierhead.url + addressOf(orders));
      await page.getByRole("region", { name: "Active revision" }).waitFor();
      await page.keyboard.press("?");
      await page.getByRole("dialog").getByText("Search or run").waitFor();
    },
  },
  {
    name: "not-found",
    open: at("/host/nowhere", (page) => page.getByRole("main").getByRole("link").first().waitFor()),
  },
  {
    name: "sign-in",
    async open(page, { pierhead }) {
      await page.context().clearCookies();
      await page.goto(`${pierhead.url}/host/deployments`);
      await page.getByLabel("API key").waitFor();
    },
  },
];

/** Makes the threads that the pictures show. */
export async function makeThreads(
  page: Page,
  { pierhead, support }: Omit<Shown, "threads">,
): Promise<Shown["threads"]> {
  const log = page.getByRole("log");
  const say = async (text: string) => {
    await page.getByLabel("Message", { exact: true }).fill(text);
    await page.getByRole("button", { name: "Send" }).click();
  };
  const threadIn = () => new URL(page.url()).searchParams.get("thread") ?? "";
  await page.goto(pierhead.url + addressOf(support));
  await goToPart(page, "Playground");
  await say("Which kettle keeps water warm for tea?");
  await log.getByText("The Quay is the better one").waitFor();
  await say("And now compare them");
  await page.getByRole("img", { name: /compare:write_table, done/ }).waitFor();
  const answered = threadIn();
  await page.getByRole("button", { name: "New thread" }).click();
  await page.getByText("Say something to your agent").waitFor();
  await say("Which kettle keeps water warm for tea?");
  await log.getByText("The Quay is the better one").waitFor();
  await say("The kettle from order 8841 arrived broken. I want my money back.");
  await log.getByRole("button", { name: "Approve", exact: true }).waitFor();
  return { answered, waiting: threadIn() };
}
