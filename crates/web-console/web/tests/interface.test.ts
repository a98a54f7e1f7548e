import assert from 'node:assert/strict'
import test from 'node:test'
import { readTheme } from '../src/api/theme.ts'
import {
  isLink,
  readHome,
  readMenu,
  readRecord,
  readViews,
  searchOf,
  selectionOf,
  written,
} from '../src/generic/ui-contents.ts'

test('nothing kept is nothing shown, and no flaw', () => {
  assert.deepEqual(readMenu(undefined), { content: { sections: [] }, flaws: [] })
})

test('another version, another kind and another front end are left out as a whole', () => {
  assert.deepEqual(readMenu({ version: 2, sections: [] }), { content: { sections: [] }, flaws: ['version'] })
  assert.deepEqual(readMenu('menu'), { content: { sections: [] }, flaws: ['content'] })
  assert.deepEqual(readTheme({ colour: '#336699' }), { content: {}, flaws: ['colour'] })
  assert.deepEqual(readTheme({}), { content: {}, flaws: ['version'] })
})

test('links go below the console, or to https', () => {
  for (const link of ['/console/tasks?status=open', 'https://example.com/wiki#a']) assert.ok(isLink(link), link)
  const refused = [
    '/console/../api/users/',
    '/console/%2e%2e/api/',
    '//example.com',
    '/\\example.com',
    'http://example.com',
    'javascript:alert(1)',
    'https://',
    'https://a:b@example.com/',
    'tasks',
    '/sign-in/',
    '/console/\n',
  ]
  for (const link of refused) assert.ok(!isLink(link), link)
})

test('of a menu, items that are not understood are left out', () => {
  const { content, flaws } = readMenu({
    version: 1,
    sections: [
      {
        title: 'Sales',
        items: [
          { class: 'invoice' },
          { class: 'a b' },
          { link: 'javascript:alert(1)', label: 'Bad' },
          { link: 'https://example.com' },
          { link: '/console/tasks', label: 'Tasks', icon: 'x' },
          7,
        ],
      },
      'no section',
    ],
  })
  const kept = content.sections.map(({ title, items }) => [title, items.map((item) => item.class ?? item.link)])
  assert.deepEqual(kept, [['Sales', ['invoice', '/console/tasks']]])
  assert.deepEqual(flaws, [
    'sections.0.items.1.class',
    'sections.0.items.1',
    'sections.0.items.2.link',
    'sections.0.items.2',
    'sections.0.items.3',
    'sections.0.items.4.icon',
    'sections.0.items.5',
    'sections.1',
  ])
})

test('blocks of the home page', () => {
  const { content, flaws } = readHome({
    version: 1,
    blocks: [
      { kind: 'count', class: 'invoice', title: 'Open', filters: 'status=open' },
      { kind: 'list', class: 'invoice', columns: ['number', 'a b'], ordering: '-due', limit: 1000 },
      { kind: 'component', component: 3, parameters: { a: '' } },
      { kind: 'list', class: 'invoice', filters: 'status=open&limit=5' },
      { kind: 'clock' },
    ],
  })
  assert.deepEqual(content.blocks, [
    { kind: 'count', title: 'Open', class: 'invoice', filters: 'status=open' },
    { kind: 'list', title: '', class: 'invoice', limit: 5, filters: '', ordering: '-due', columns: ['number'] },
    { kind: 'component', title: '', component: 3, parameters: { a: '' } },
    { kind: 'list', title: '', class: 'invoice', limit: 5, filters: '', ordering: '', columns: [] },
  ])
  assert.deepEqual(flaws, ['blocks.1.limit', 'blocks.1.columns.1', 'blocks.3.filters', 'blocks.4'])
})

test('a view is an address, and back', () => {
  const search = '?status__in=open%2Clate&ordering=-due&.columns=number%2Cdue'
  const view = selectionOf(`${search}&limit=50&offset=100`)
  assert.deepEqual(view, { filters: 'status__in=open%2Clate', ordering: '-due', columns: ['number', 'due'] })
  assert.equal(searchOf(view), search)
  assert.equal(searchOf(selectionOf('')), '')
  const twice = { version: 1, views: [{ name: 'Late', ...view }, { name: 'Late' }, { filters: 'a=b' }] }
  assert.deepEqual(readViews(twice), { content: { views: [{ name: 'Late', ...view }] }, flaws: ['views.1', 'views.2'] })
})

test('each field and each title of a record page stands once', () => {
  const { content, flaws } = readRecord({
    version: 1,
    sections: [
      { title: 'Amounts', fields: ['net', 'gross', 'net'] },
      { title: 'Dates', fields: ['gross', 'due'] },
      { title: 'Dates', fields: ['paid'] },
    ],
    summary: { component: 'x' },
  })
  assert.deepEqual(content.sections, [
    { title: 'Amounts', fields: ['net', 'gross'] },
    { title: 'Dates', fields: ['due'] },
  ])
  assert.equal(content.summary, undefined)
  assert.deepEqual(flaws, [
    'sections.0.fields.2',
    'sections.1.fields.0',
    'sections.2.title',
    'sections.2',
    'summary.component',
    'summary',
  ])
})

test('a summary gets the fields that its item names, each once', () => {
  const summary = (given: object) => readRecord({ version: 1, summary: { component: 3, ...given } } as never)
  assert.deepEqual(summary({}), { content: { sections: [], summary: { component: 3 } }, flaws: [] })
  assert.deepEqual(summary({ fields: ['net', 'due'] }).content.summary, { component: 3, fields: ['net', 'due'] })
  const { content, flaws } = summary({ fields: ['net', 'net', 'not an alias', 5] })
  assert.deepEqual(content.summary, { component: 3, fields: ['net'] })
  assert.deepEqual(flaws, ['summary.fields.1', 'summary.fields.2', 'summary.fields.3'])
  // A block of the home page has no record.
  const block = { kind: 'component', component: 3, fields: ['net'] }
  assert.deepEqual(readHome({ version: 1, blocks: [block] }).flaws, ['blocks.0.fields'])
})

test('a stored content has a version and nothing empty, and is read unchanged', () => {
  const blocks = [{ kind: 'component' as const, title: '', component: 3, parameters: { a: '', b: [] } }]
  const kept = written({ blocks })
  assert.deepEqual(kept, { version: 1, blocks: [{ kind: 'component', component: 3, parameters: { a: '', b: [] } }] })
  assert.deepEqual(readHome(kept), { content: { blocks }, flaws: [] })
})

test('a theme has a hue of the circle, and a logo that is a public file', () => {
  const logo = '/api/files/public-storage/8f90e2cd-7f29-4906-987d-5d497c55f100/'
  assert.deepEqual(readTheme({ version: 1, hue: 360, name: 'Acme', logo }).content, { hue: 360, name: 'Acme', logo })
  const { flaws } = readTheme({ version: 1, hue: 361, name: '', logo: 'https://example.com/logo.png' })
  assert.deepEqual(flaws, ['hue', 'name', 'logo'])
})
