// The palette: pages, objects to create, actions of the open page, and results of the search: records, people, groups.

import { useQuery } from '@tanstack/react-query'
import { useEffect, useState } from 'react'
import { Autocomplete, Dialog, Input, Menu, MenuItem, Modal, ModalOverlay, TextField } from 'react-aria-components'
import { page } from '../../api/query.ts'
import { session } from '../../api/session.ts'
import { useGo } from '../../generic/go.tsx'
import css from '../../kit/controls.module.css'
import { keysText, Layer, shortcuts } from '../../kit/keys.ts'
import { RESOURCES } from '../../resources/index.ts'
import type { Part } from '../../shared/menu.ts'
import { mayRecords } from '../../shared/records/class.ts'
import { foundRoute, search, useClassNames } from '../../shared/records/found.ts'
import { t } from '../../texts.ts'
import look from './palette.module.css'

interface Item {
  id: string
  text: string
  keys?: string | undefined
  /** The kind of an entry, if its name does not say it. */
  kind?: string | undefined
  run: () => void
}

const FOUND = 8

export default function Palette({ parts, onClose }: { parts: Part[]; onClose: () => void }) {
  const go = useGo()
  const [typed, setTyped] = useState('')
  const [here] = useState(shortcuts)
  const permissions = session()?.permissions ?? {}
  const [searchText, setSearchText] = useState('')
  useEffect(() => {
    const timer = setTimeout(() => setSearchText(typed.trim().length > 1 ? typed.trim() : ''), 150)
    return () => clearTimeout(timer)
  }, [typed])
  const { data = [] } = useQuery(search(searchText, FOUND))
  const results = searchText === '' ? [] : data
  const names = useClassNames(results)
  // "New invoice" also finds the class of that name.
  const making = t('create-one', { one: '' }).trim().toLowerCase()
  const [first = '', ...rest] = searchText.split(' ')
  const called = first.toLowerCase() === making ? rest.join(' ') : searchText
  const classes = useQuery({
    ...page(
      '/api/object-classes/',
      `${new URLSearchParams({ name__icontains: called, ordering: 'name', limit: '5' })}`,
    ),
    enabled: searchText !== '',
  })
  const asksFor = searchText === '' ? [] : (classes.data?.results ?? [])
  const items: Item[] = [
    ...parts.flatMap(({ entries }) =>
      entries.map(({ to, text, keys }) => ({ id: to, text: t('go-to', { name: text }), keys, run: () => go(to) })),
    ),
    { id: '/me', text: t('go-to', { name: t('me') }), run: () => go('/me') },
    ...RESOURCES.filter(
      ({ permission, name, canCreate }) => canCreate !== false && permissions[permission ?? name]?.create,
    ).map(({ name, route, one }) => ({
      id: `new ${name}`,
      text: t('create-one', { one: t(one) }),
      run: () => go(`${route}/new`),
    })),
    ...here
      .filter(
        ({ keys, text }, n, all) =>
          !keys?.startsWith('g ') && keys !== 'Ctrl+K' && all.findIndex((one) => one.text === text) === n,
      )
      .map(({ keys, text, run }, n) => ({ id: `do ${n}`, text, keys, run })),
  ]
  const wanted = typed.toLowerCase()
  const visibleItems: Item[] = [
    ...items.filter(({ text }) => text.toLowerCase().includes(wanted)),
    ...asksFor
      .filter((one) => mayRecords(one, 'create'))
      .map(({ alias, name }) => ({
        id: `new ${alias}`,
        text: t('create-one', { one: `${name}` }),
        kind: t('records'),
        run: () => go(`/records/${alias}/new`),
      })),
    ...asksFor
      .map(({ alias, name }) => ({ id: `/records/${alias}`, name: `${name}` }))
      .filter(({ id }) => items.every((item) => item.id !== id))
      .map(({ id, name }) => ({ id, text: t('go-to', { name }), run: () => go(id) })),
    ...results.map((one) => ({
      id: `${one.type} ${one.id}`,
      text: one.label,
      kind: one.type === 'object_record' ? names.get(one.object_class ?? 0) : undefined,
      run: () => go(foundRoute(one)),
    })),
    ...(typed.trim() === ''
      ? []
      : [
          {
            id: 'search',
            text: t('search.for', { text: typed.trim() }),
            run: () => go(`/search?${new URLSearchParams({ text: typed.trim() })}`),
          },
        ]),
  ]
  const choose = (item: Item | undefined) => {
    if (!item) return
    onClose()
    item.run()
  }
  return (
    <ModalOverlay
      className={`${css.overlay} ${look.overlay}`}
      isOpen
      isDismissable
      onOpenChange={(open) => open || onClose()}
    >
      <Modal className={`${css.modal} ${look.palette}`}>
        <Dialog aria-label={t('palette')} className={look.dialog ?? ''}>
          <Layer>
            <Autocomplete inputValue={typed} onInputChange={setTyped}>
              <TextField aria-label={t('palette')} autoFocus>
                <Input
                  className={`${css.input} ${look.input}`}
                  placeholder={t('palette.hint')}
                  onKeyDown={(event) => {
                    // Late choices remove the mark of the first one for a moment.
                    if (event.key === 'Enter' && !event.currentTarget.hasAttribute('aria-activedescendant'))
                      choose(visibleItems[0])
                  }}
                />
              </TextField>
              <Menu
                // The focus stays in the input, so the keys must scroll the list.
                ref={(list: HTMLElement | null) => list?.setAttribute('tabindex', '0')}
                className={`${css.list} ${look.list}`}
                aria-label={t('palette')}
                items={visibleItems.slice(0, 60)}
                renderEmptyState={() => <p className={css.nothing}>{t('nothing-found')}</p>}
              >
                {(item: Item) => (
                  <MenuItem id={item.id} textValue={item.text} className={css.item ?? ''} onAction={() => choose(item)}>
                    <span>{item.text}</span>
                    {item.kind && <span className={css.optional}>{item.kind}</span>}
                    {item.keys && <kbd>{keysText(item.keys)}</kbd>}
                  </MenuItem>
                )}
              </Menu>
            </Autocomplete>
          </Layer>
        </Dialog>
      </Modal>
    </ModalOverlay>
  )
}
