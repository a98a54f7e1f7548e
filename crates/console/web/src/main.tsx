// The frame of every screen: menu, bar, palette, and what happens to a session.

import { QueryClientProvider } from '@tanstack/react-query'
import {
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
  Outlet,
  RouterProvider,
} from '@tanstack/react-router'
import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import './kit/base.css'
import { queries } from './api/query.ts'
import { session } from './api/session.ts'
import { Failure } from './generic/failure.tsx'
import { BASE } from './generic/go.tsx'
import { List } from './generic/list.tsx'
import type { Resource } from './generic/resource.ts'
import { Button } from './kit/buttons.tsx'
import { showIn } from './kit/values.tsx'
import { RESOURCES } from './resources/index.ts'
import { Frame } from './screens/frame.tsx'
import { NotFound } from './screens/not-found.tsx'
import { t } from './texts.ts'

/** A part of the console that is not there any more: the server is newer than this page. */
const isOfAnUpdate = (error: unknown) => /dynamically imported module|module script/.test(`${error}`)

function Updated() {
  return (
    <div role="alert">
      <h1 tabIndex={-1}>{t('updated')}</h1>
      <Button look="primary" onPress={() => location.reload()}>
        {t('reload')}
      </Button>
    </div>
  )
}

const root = createRootRoute({
  component: () => (
    <Frame>
      <Outlet />
    </Frame>
  ),
  notFoundComponent: NotFound,
  errorComponent: ({ error, reset }) => (isOfAnUpdate(error) ? <Updated /> : <Failure error={error} onRetry={reset} />),
})

const mayCreate = ({ permission, name, canCreate }: Resource) =>
  canCreate !== false && session()?.permissions?.[permission ?? name]?.create === true

/** Pages of one instance are fetched when the first is opened. */
const pages = () => import('./generic/pages.tsx')

const resourceRoutes = RESOURCES.flatMap((resource) => [
  createRoute({
    getParentRoute: () => root,
    path: resource.route,
    component: () => <List resource={resource} canCreate={mayCreate(resource)} />,
  }),
  createRoute({
    getParentRoute: () => root,
    path: `${resource.route}/$id`,
    component: lazyRouteComponent(pages, 'OnePage'),
  }),
])

const admin = () => import('./screens/admin.tsx')
const log = () => import('./screens/log.tsx')
const screens = [
  createRoute({
    getParentRoute: () => root,
    path: '/',
    component: lazyRouteComponent(() => import('./screens/home.tsx'), 'Home'),
  }),
  createRoute({
    getParentRoute: () => root,
    path: '/me',
    component: lazyRouteComponent(() => import('./screens/me.tsx'), 'Me'),
  }),
  createRoute({ getParentRoute: () => root, path: '/admin/company', component: lazyRouteComponent(admin, 'Company') }),
  createRoute({
    getParentRoute: () => root,
    path: '/admin/mail',
    component: lazyRouteComponent(() => import('./screens/mail.tsx'), 'Mail'),
  }),
  createRoute({
    getParentRoute: () => root,
    path: '/admin/sign-in',
    component: lazyRouteComponent(() => import('./screens/sign-in.tsx'), 'SignIn'),
  }),
  createRoute({ getParentRoute: () => root, path: '/admin/limits', component: lazyRouteComponent(admin, 'Limits') }),
  createRoute({ getParentRoute: () => root, path: '/admin/log', component: lazyRouteComponent(log, 'Log') }),
  createRoute({
    getParentRoute: () => root,
    path: '/admin/files',
    component: lazyRouteComponent(() => import('./screens/public-files.tsx'), 'PublicFiles'),
  }),
  createRoute({ getParentRoute: () => root, path: '/admin/sign-ins', component: lazyRouteComponent(log, 'SignIns') }),
  createRoute({
    getParentRoute: () => root,
    path: '/signed-in',
    component: lazyRouteComponent(() => import('./screens/signed-in.tsx'), 'SignedIn'),
  }),
]

const records = () => import('./screens/records/records.tsx')
const record = () => import('./screens/records/record.tsx')
const recordScreens = [
  createRoute({
    getParentRoute: () => root,
    path: '/search',
    component: lazyRouteComponent(() => import('./screens/records/search.tsx'), 'Search'),
  }),
  createRoute({ getParentRoute: () => root, path: '/records', component: lazyRouteComponent(records, 'AllClasses') }),
  createRoute({
    getParentRoute: () => root,
    path: '/records/$alias',
    component: lazyRouteComponent(records, 'Records'),
  }),
  createRoute({
    getParentRoute: () => root,
    path: '/records/-/$id',
    component: lazyRouteComponent(record, 'AnyRecord'),
  }),
  createRoute({
    getParentRoute: () => root,
    path: '/records/$alias/import',
    component: lazyRouteComponent(() => import('./screens/records/import.tsx'), 'Import'),
  }),
  createRoute({
    getParentRoute: () => root,
    path: '/records/$alias/deleted',
    component: lazyRouteComponent(() => import('./screens/records/deleted.tsx'), 'Deleted'),
  }),
  createRoute({
    getParentRoute: () => root,
    path: '/records/$alias/new',
    component: lazyRouteComponent(() => import('./screens/records/new.tsx'), 'New'),
  }),
  createRoute({
    getParentRoute: () => root,
    path: '/records/$alias/$id',
    component: lazyRouteComponent(record, 'OneRecord'),
  }),
]

const taskList = lazyRouteComponent(() => import('./screens/tasks/tasks.tsx'), 'Tasks')
const taskPages = [
  ...['/tasks', '/tasks/all', '/tasks/board', '/tasks/all/board'].map((path) =>
    createRoute({ getParentRoute: () => root, path, component: taskList }),
  ),
  createRoute({
    getParentRoute: () => root,
    path: '/tasks/$id',
    component: lazyRouteComponent(() => import('./screens/tasks/task.tsx'), 'TaskPage'),
  }),
]

const fill = () => import('./screens/forms/fill.tsx')
const formPages = [
  createRoute({ getParentRoute: () => root, path: '/forms', component: lazyRouteComponent(fill, 'Forms') }),
  createRoute({ getParentRoute: () => root, path: '/forms/$uuid', component: lazyRouteComponent(fill, 'FillIn') }),
  createRoute({
    getParentRoute: () => root,
    path: '/admin/classes/$id/templates',
    component: lazyRouteComponent(() => import('./screens/classes/templates.tsx'), 'Templates'),
  }),
  createRoute({
    getParentRoute: () => root,
    path: '/admin/classes/$id/forms/$uuid',
    component: lazyRouteComponent(() => import('./screens/forms/design.tsx'), 'FormDesign'),
  }),
]

const flat = (search: string) => Object.fromEntries(new URLSearchParams(search))
const written = (search: Record<string, unknown>) => {
  const text = `${new URLSearchParams(search as Record<string, string>)}`
  return text && `?${text}`
}

/** Draws the console, once it is known who is there. */
export function show() {
  showIn(session()?.user?.timezone ?? 'UTC')
  const router = createRouter({
    routeTree: root.addChildren([...screens, ...recordScreens, ...resourceRoutes, ...taskPages, ...formPages]),
    basepath: BASE,
    parseSearch: flat,
    stringifySearch: written,
    scrollRestoration: true,
    defaultPendingMs: 1000,
  })
  const place = document.getElementById('root')
  if (!place) return
  createRoot(place).render(
    <StrictMode>
      <QueryClientProvider client={queries}>
        <RouterProvider router={router} />
      </QueryClientProvider>
    </StrictMode>,
  )
}
