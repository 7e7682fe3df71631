/** A page of either kind of list (contract 1.6). */
export type Page = { resources: unknown[]; offset: number } | { items: unknown[]; next_cursor: string | null };

/** The largest page the API gives. */
const pageSizeMax = 100;

/** Every item of a list, page after page, as they are asked for. */
export async function* readPages(read: (place: Record<string, unknown>) => Promise<Page>): AsyncGenerator<unknown> {
  // Each list knows one of the two names of the size; unknown parameters are ignored (contract 1.2).
  let place: Record<string, unknown> = { limit: pageSizeMax, page_size: pageSizeMax };
  for (;;) {
    const page = await read(place);
    if ("resources" in page) {
      yield* page.resources;
      if (page.resources.length < pageSizeMax) return;
      place = { ...place, offset: page.offset };
    } else {
      yield* page.items;
      if (page.next_cursor === null) return;
      place = { ...place, cursor: page.next_cursor };
    }
  }
}
