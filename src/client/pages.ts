/** Page of either kind of list (contract 1.6). */
export type Page = { resources: unknown[]; offset: number } | { items: unknown[]; next_cursor: string | null };

/** The largest page that the API allows. */
const pageSizeMax = 100;

/** Yields every item of a list, and requests the next page when it is needed. */
export async function* readPages(read: (position: Record<string, unknown>) => Promise<Page>): AsyncGenerator<unknown> {
  // Each list knows one of the two names of the page size. The server ignores unknown parameters (contract 1.2).
  let position: Record<string, unknown> = { limit: pageSizeMax, page_size: pageSizeMax };
  for (;;) {
    const page = await read(position);
    if ("resources" in page) {
      yield* page.resources;
      if (page.resources.length < pageSizeMax) return;
      position = { ...position, offset: page.offset };
    } else {
      yield* page.items;
      if (page.next_cursor === null) return;
      position = { ...position, cursor: page.next_cursor };
    }
  }
}
