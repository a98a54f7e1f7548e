import type { Resource } from '../../generic/resource.ts'
import type { RecordPage } from '../../generic/ui-contents.ts'

/** Arranges the fields of a class in the sections of its interface configuration. */
export const arranged = (resource: Resource, { sections }: RecordPage): Resource =>
  sections.length === 0
    ? resource
    : {
        ...resource,
        sections: sections.map(({ title, fields }) => ({ title: 'records.fields', heading: title, fields })),
      }
