// The routes of the console, and its start.

import { QueryClientProvider } from '@tanstack/react-query'
import {
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
  Outlet,
  RouterProvider,
  useRouter,
} from '@tanstack/react-router'
import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import './kit/base.css'
import { queries } from './api/query.ts'
import type { Refusal } from './api/refusal.ts'
import { onSession, session } from './api/session.ts'
import { parseSearch, stringifySearch } from './generic/address.ts'
import { failureText } from './generic/failure.tsx'
import { BASE } from './generic/go.tsx'
import { List } from './generic/list.tsx'
import type { LoadParts } from './generic/pages.tsx'
import { readBy } from './generic/relative.ts'
import type { Resource } from './generic/resource.ts'
import css from './kit/controls.module.css'
import { fetched, Missing } from './kit/part.tsx'
import { showIn } from './kit/values.tsx'
import { RESOURCES } from './resources/index.ts'
import { Frame } from './screens/frame/frame.tsx'
import { NotFound } from './shared/not-found.tsx'
import { t } from './texts.ts'

/** The failure that replaces a page within the frame. */
function Broken({ error, reset }: { error: unknown; reset: () => void }) {
  const router = useRouter()
  return (
    <>
      <h1 tabIndex={-1}>{t('failure.title')}</h1>
      <Missing error={error} onRetry={() => void router.invalidate().then(reset)} />
    </>
  )
}

const screen = <T extends Record<string, unknown>, N extends keyof T & string>(
  load: () => Promise<T>,
  name: N,
  isFirst = false,
) => lazyRouteComponent(fetched(load, isFirst), name)

const root = createRootRoute({
  component: () => (
    <Frame>
      <Outlet />
    </Frame>
  ),
  notFoundComponent: NotFound,
  errorComponent: Broken,
})

const mayCreate = ({ permission, name, canCreate }: Resource) =>
  canCreate !== false && session()?.permissions?.[permission ?? name]?.create === true

/** Pages of one instance are fetched when the first is opened. */
const pages = () => import('./generic/pages.tsx')
const OnePage = screen(pages, 'OnePage')

/** The parts that screens add to the pages of one instance, by the name of the resource. */
const PARTS: { [resource: string]: LoadParts } = {
  users: () => import('./screens/users/users.parts.tsx'),
  roles: () => import('./screens/roles/roles.parts.tsx'),
  user_groups: () => import('./screens/user-groups/user-groups.parts.tsx'),
  single_sign_on: () => import('./screens/single-sign-on/single-sign-on.parts.tsx'),
  authentication_objects: () => import('./screens/connected/authentication-objects.parts.tsx'),
  object_classes: () => import('./screens/classes/object-classes.parts.tsx'),
  task_templates: () => import('./screens/task-templates/task-templates.parts.tsx'),
  integrations: () => import('./screens/connected/integrations.parts.tsx'),
  mcp_connectors: () => import('./screens/connected/connectors.parts.tsx'),
  custom_components: () => import('./screens/components/custom-components.parts.tsx'),
}

const resourceRoutes = RESOURCES.flatMap((resource) => [
  createRoute({
    getParentRoute: () => root,
    path: resource.route,
    component: () => <List resource={resource} canCreate={mayCreate(resource)} />,
  }),
  createRoute({
    getParentRoute: () => root,
    path: `${resource.route}/$id`,
    component: Object.assign(() => <OnePage resource={resource} load={PARTS[resource.name]} />, {
      preload: async () => OnePage.preload?.(),
    }),
  }),
])

const organisation = () => import('./screens/organisation/organisation.tsx')
const log = () => import('./screens/log/log.tsx')
const screens = [
  createRoute({
    getParentRoute: () => root,
    path: '/',
    component: screen(() => import('./screens/home/home.tsx'), 'Home', true),
  }),
  createRoute({
    getParentRoute: () => root,
    path: '/me',
    component: screen(() => import('./screens/me/me.tsx'), 'Me'),
  }),
  createRoute({ getParentRoute: () => root, path: '/admin/company', component: screen(organisation, 'Company') }),
  createRoute({
    getParentRoute: () => root,
    path: '/admin/mail',
    component: screen(() => import('./screens/mail/mail.tsx'), 'Mail'),
  }),
  createRoute({
    getParentRoute: () => root,
    path: '/admin/sign-in',
    component: screen(() => import('./screens/sign-in/sign-in.tsx'), 'SignIn'),
  }),
  createRoute({
    getParentRoute: () => root,
    path: '/admin/provisioning',
    component: screen(() => import('./screens/provisioning/provisioning.tsx'), 'Provisioning'),
  }),
  createRoute({ getParentRoute: () => root, path: '/admin/limits', component: screen(organisation, 'Limits') }),
  createRoute({ getParentRoute: () => root, path: '/admin/log', component: screen(log, 'Log') }),
  createRoute({
    getParentRoute: () => root,
    path: '/admin/files',
    component: screen(() => import('./screens/public-files/public-files.tsx'), 'PublicFiles'),
  }),
  ...['/admin/interface', '/admin/interface/$part'].map((path) =>
    createRoute({
      getParentRoute: () => root,
      path,
      component: screen(() => import('./screens/interface/interface.tsx'), 'Interface'),
    }),
  ),
  createRoute({
    getParentRoute: () => root,
    path: '/admin/components/repositories',
    component: screen(() => import('./screens/components/repositories.tsx'), 'Repositories'),
  }),
  createRoute({ getParentRoute: () => root, path: '/admin/sign-ins', component: screen(log, 'SignIns') }),
  createRoute({
    getParentRoute: () => root,
    path: '/signed-in',
    component: screen(() => import('./screens/signed-in/signed-in.tsx'), 'SignedIn'),
  }),
]

const records = () => import('./screens/records/records.tsx')
const record = () => import('./screens/records/record.tsx')
const recordScreens = [
  createRoute({
    getParentRoute: () => root,
    path: '/search',
    component: screen(() => import('./screens/records/search.tsx'), 'Search'),
  }),
  createRoute({ getParentRoute: () => root, path: '/records', component: screen(records, 'AllClasses') }),
  createRoute({
    getParentRoute: () => root,
    path: '/records/$alias',
    component: screen(records, 'Records', true),
  }),
  createRoute({
    getParentRoute: () => root,
    path: '/records/-/$id',
    component: screen(record, 'AnyRecord'),
  }),
  createRoute({
    getParentRoute: () => root,
    path: '/records/$alias/import',
    component: screen(() => import('./screens/records/import.tsx'), 'Import'),
  }),
  createRoute({
    getParentRoute: () => root,
    path: '/records/$alias/deleted',
    component: screen(() => import('./screens/records/deleted.tsx'), 'Deleted'),
  }),
  createRoute({
    getParentRoute: () => root,
    path: '/records/$alias/new',
    component: screen(() => import('./screens/records/new.tsx'), 'New'),
  }),
  createRoute({
    getParentRoute: () => root,
    path: '/records/$alias/$id',
    component: screen(record, 'OneRecord'),
  }),
]

const taskList = screen(() => import('./screens/tasks/tasks.tsx'), 'Tasks')
const taskPages = [
  ...['/tasks', '/tasks/all', '/tasks/board', '/tasks/all/board'].map((path) =>
    createRoute({ getParentRoute: () => root, path, component: taskList }),
  ),
  createRoute({
    getParentRoute: () => root,
    path: '/tasks/$id',
    component: screen(() => import('./screens/tasks/task.tsx'), 'TaskPage'),
  }),
]

const fill = () => import('./screens/forms/fill.tsx')
const formPages = [
  createRoute({ getParentRoute: () => root, path: '/forms', component: screen(fill, 'Forms') }),
  createRoute({ getParentRoute: () => root, path: '/forms/$uuid', component: screen(fill, 'FillIn') }),
  createRoute({
    getParentRoute: () => root,
    path: '/admin/classes/$id/templates',
    component: screen(() => import('./screens/classes/templates.tsx'), 'Templates'),
  }),
  createRoute({
    getParentRoute: () => root,
    path: '/admin/classes/$id/forms/$uuid',
    component: screen(() => import('./screens/forms/design.tsx'), 'FormDesign'),
  }),
]

/** Says why the sign-in is not known yet, and when the console tries again. */
export function tellOfStart(refusal: Refusal, pause: number) {
  const lines = [
    failureText(refusal),
    t('failure.again-in', { count: Math.ceil(pause / 1000) }),
    ...(refusal.requestId ? [t('failure.request', { id: refusal.requestId })] : []),
  ]
  const notice = document.createElement('main')
  notice.className = css.notice ?? ''
  notice.dataset.tone = 'danger'
  notice.setAttribute('role', 'alert')
  notice.append(
    ...lines.map((line) => {
      const paragraph = document.createElement('p')
      paragraph.textContent = line
      return paragraph
    }),
  )
  document.getElementById('root')?.replaceChildren(notice)
}

/** Parts that a user opens from the first list are fetched in advance, some seconds after the first list. */
function prefetch() {
  for (const load of [pages, record, () => import('./kit/popovers.tsx'), () => import('./kit/fields.tsx')])
    void fetched<unknown>(load)().catch(() => {})
}

/** Draws the console when the session is known. */
export function show() {
  const readByWhoIsThere = () => {
    const user = session()?.user
    const zone = user?.timezone ?? 'UTC'
    showIn(zone)
    readBy({ id: user?.id, zone })
  }
  readByWhoIsThere()
  onSession(readByWhoIsThere)
  const router = createRouter({
    routeTree: root.addChildren([...screens, ...recordScreens, ...resourceRoutes, ...taskPages, ...formPages]),
    basepath: BASE,
    parseSearch,
    stringifySearch,
    scrollRestoration: true,
    defaultPendingMs: 1000,
    defaultErrorComponent: Broken,
  })
  const place = document.getElementById('root')
  if (!place) return
  place.replaceChildren()
  setTimeout(() => requestIdleCallback(prefetch), 4000)
  createRoot(place).render(
    <StrictMode>
      <QueryClientProvider client={queries}>
        <RouterProvider router={router} />
      </QueryClientProvider>
    </StrictMode>,
  )
}
