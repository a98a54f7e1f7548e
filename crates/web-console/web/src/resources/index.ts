// The resources that the generic list, form and detail page show, in the order of the menu.

import type { Resource } from '../generic/resource.ts'
import { authenticationObjects } from './authentication-objects.ts'
import { connectors } from './connectors.ts'
import { customComponents } from './custom-components.ts'
import { integrations } from './integrations.ts'
import { objectClasses } from './object-classes.ts'
import { roles } from './roles.ts'
import { singleSignOn } from './single-sign-on.ts'
import { taskTemplates } from './task-templates.ts'
import { userGroups } from './user-groups.ts'
import { users } from './users.ts'

export const RESOURCES: Resource[] = [
  users,
  roles,
  userGroups,
  singleSignOn,
  authenticationObjects,
  objectClasses,
  taskTemplates,
  integrations,
  connectors,
  customComponents,
]
