import type { Fields, Instance, Options } from '../api/shapes.ts'
import { may, type Resource, type Shape } from '../generic/resource.ts'

const asItIs = (fields: Fields): Fields => fields

/**
 * A user who may edit a component may also delete it, which the API does not say. The field of places is sent whole.
 */
const SHAPE: Shape = {
  options: (described: Options) => ({
    ...described,
    details: {
      ...described.details,
      schema: described.details.schema.map(({ schema, ...field }) =>
        field.alias === 'available_use' || !schema ? field : { ...field, schema },
      ),
    },
  }),
  instance: (component: Instance): Instance => ({
    ...component,
    _meta: { permissions: { ...component._meta?.permissions, delete: may(component, 'edit') } },
  }),
  body: asItIs,
  messages: asItIs,
}

export const customComponents: Resource = {
  name: 'custom_components',
  permission: 'custom_component',
  path: '/api/custom-components/',
  shape: SHAPE,
  route: '/admin/components',
  icon: 'puzzle',
  title: 'custom-components',
  one: 'custom-components.one',
  label: ({ name }) => `${name}`,
  columns: ['name', 'status', 'is_enabled', 'version', 'publisher', 'modified_at'],
  search: 'name__icontains',
  sections: [
    { title: 'section.component', fields: ['name', 'description', 'is_enabled', 'available_use'] },
    { title: 'section.origin', fields: ['repository', 'version', 'publisher', 'publisher_url', 'parameters'] },
  ],
  hidden: ['index_url', 'repository_url'],
  beside: { to: '/admin/components/repositories', text: 'custom-components.repositories' },
  nothing: 'custom-components.nothing',
  deletes: 'custom-components.deletes',
}
