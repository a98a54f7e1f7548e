import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Instance, Json } from '../../src/api/shapes.ts'
import { List } from '../../src/generic/list.tsx'
import type { Resource } from '../../src/generic/resource.ts'
import {
  type Answers,
  all,
  button,
  click,
  eventually,
  key,
  open,
  pageOf,
  press,
  type TestPage,
  texts,
} from './page.tsx'

const RESOURCE: Resource = {
  name: 'roles',
  path: '/api/roles/',
  route: '/admin/roles',
  icon: 'shield',
  title: 'roles',
  one: 'roles.one',
  label: ({ name }) => `${name}`,
  columns: ['name', 'size'],
  sections: [],
}

const NAMES = ['Auditor', 'Editor', 'Manager', 'Reader']
const role = (name: string, n: number): Json => ({
  id: n + 1,
  name,
  size: n * 10,
  _meta: { permissions: { edit: true, delete: name !== 'Reader' } },
})
const ROLES = NAMES.map(role)

const COLUMNS: Json = [
  { alias: 'name', type: 'string', predicates: ['exact', 'icontains'], sort_ok: true, label: 'Name' },
  { alias: 'size', type: 'integer', predicates: ['exact', 'gte'], sort_ok: true, label: 'Size' },
  { alias: 'note', type: 'text', predicates: [], sort_ok: false, label: 'Note' },
]

const API: Answers = {
  'OPTIONS /api/roles/': { list: { columns: COLUMNS }, details: { schema: [] } },
  'GET /api/roles/': pageOf(ROLES),
}

let page: TestPage

const rows = () => texts('tbody th')
const selected = () => texts('tr[aria-selected=true] th')
const box = (name: string) => all(`input[aria-label="Select ${name}"]`)[0] as HTMLInputElement
const heads = () => texts('thead th').filter(Boolean)
const lists = () => page.requests.filter(({ method }) => method === 'GET')

async function openList(search = '', answers: Answers = {}, props: Partial<Parameters<typeof List>[0]> = {}) {
  page = await open(`/admin/roles${search}`, <List resource={RESOURCE} canCreate {...props} />, { ...API, ...answers })
  await eventually(() => assert.ok(all('h1').length > 0))
}

test('a list shows the columns of its resource and the rows of the API', async () => {
  await openList()
  await eventually(() => assert.deepEqual(rows(), NAMES))
  assert.deepEqual(heads(), ['Name', 'Size'])
  assert.equal(button('Editor').getAttribute('href'), '/console/admin/roles/2')
})

test('the address decides the query', async () => {
  await openList('?name__icontains=a&ordering=-size&offset=50&limit=50&.columns=size,name')
  await eventually(() => assert.deepEqual(heads(), ['Size', 'Name']))
  const search = new URLSearchParams(lists()[0]?.search)
  assert.deepEqual(Object.fromEntries(search), {
    name__icontains: 'a',
    ordering: '-size',
    limit: '50',
    offset: '50',
  })
})

test('a press on a head sorts, first up, then down, then not', async () => {
  await openList('?offset=25', { 'GET /api/roles/': pageOf(ROLES, 29, 25) })
  const addresses = []
  for (let n = 0; n < 3; n++) {
    await press('Size')
    addresses.push(await eventually(() => page.address()))
  }
  assert.deepEqual(addresses, ['/admin/roles?ordering=size', '/admin/roles?ordering=-size', '/admin/roles'])
})

test('rows are selected one by one, in a range with Shift, and all at once', async () => {
  await openList()
  await eventually(() => assert.deepEqual(rows(), NAMES))
  await click(box('Auditor'))
  assert.deepEqual(selected(), ['Auditor'])
  await click(box('Manager'), { shiftKey: true })
  assert.deepEqual(selected(), ['Auditor', 'Editor', 'Manager'])
  await click(box('Editor'))
  assert.deepEqual(selected(), ['Auditor', 'Manager'])
  await click(all('thead input')[0] as HTMLElement)
  assert.deepEqual(selected(), NAMES)
  await press('Select none')
  assert.deepEqual(selected(), [])
})

test('selected rows are deleted only if each of them may be', async () => {
  await openList()
  await eventually(() => assert.deepEqual(rows(), NAMES))
  await click(box('Editor'))
  assert.ok(button('Delete'))
  await click(box('Reader'))
  assert.throws(() => button('Delete'), /no button/)
})

test('a bulk action gets the selected rows and the query that matches all', async () => {
  const calls: [string[], unknown][] = []
  const bulk = (instances: Instance[], _clear: () => void, matching: unknown) => {
    calls.push([instances.map(({ name }) => `${name}`), matching])
    return null
  }
  await openList('?size__gte=5&gone=1', {}, { bulk })
  await eventually(() => assert.deepEqual(rows(), NAMES))
  await click(box('Manager'))
  const matching = { count: 4, parameters: 'size__gte=5&limit=25', isTooMuch: true }
  assert.deepEqual(calls.at(-1), [['Manager'], matching])
})

test('keys move between rows, select them, and open the editor', async () => {
  await openList()
  await eventually(() => assert.deepEqual(rows(), NAMES))
  await key('j')
  assert.equal(document.activeElement?.textContent, 'Auditor')
  await key('x')
  assert.deepEqual(selected(), ['Auditor'])
  await key('J', { shiftKey: true })
  assert.deepEqual(selected(), ['Auditor', 'Editor'])
  assert.equal(document.activeElement?.textContent, 'Editor')
  await key('k')
  assert.equal(document.activeElement?.textContent, 'Auditor')
  await key('e')
  assert.equal(page.address(), '/admin/roles/1?edit=true')
})

test('another query clears the selection', async () => {
  await openList()
  await eventually(() => assert.deepEqual(rows(), NAMES))
  await click(box('Auditor'))
  await press('Size')
  await eventually(() => assert.deepEqual(selected(), []))
})

test('an empty list says whether its filters exclude every row', async () => {
  await openList('?name=x', { 'GET /api/roles/': pageOf([]) })
  await press('Remove all filters')
  assert.equal(page.address(), '/admin/roles')
})

test('a page beyond the last row leads back to the last page', async () => {
  const answer = (_: Json, search: string) => {
    const offset = Number(new URLSearchParams(search).get('offset'))
    return offset > 0 ? pageOf([], 4, offset) : pageOf(ROLES)
  }
  await openList('?offset=25', { 'GET /api/roles/': answer })
  await eventually(() => assert.deepEqual(rows(), NAMES))
  assert.equal(page.address(), '/admin/roles')
})
