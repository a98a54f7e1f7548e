// The palette: pages, objects to create, actions of the open page, and results of the search: records, people, groups.

import { useQuery } from '@tanstack/react-query'
import { useEffect, useState } from 'react'
import { Autocomplete, Dialog, Input, Menu, MenuItem, Modal, ModalOverlay, TextField } from 'react-aria-components'
import { page } from '../../api/query.ts'
import { session } from '../../api/session.ts'
import { useGo } from '../../generic/go.tsx'
import css from '../../kit/controls.module.css'
import { keysText, Layer, type Shortcut, shortcuts } from '../../kit/keys.ts'
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

type Go = ReturnType<typeof useGo>

/** The text to search for, a moment after the last key. */
function useSearchText(typed: string): string {
  const [searchText, setSearchText] = useState('')
  useEffect(() => {
    const timer = setTimeout(() => setSearchText(typed.trim().length > 1 ? typed.trim() : ''), 150)
    return () => clearTimeout(timer)
  }, [typed])
  return searchText
}

/** The pages of the menu, the resources to create, and the shortcuts of the open page. */
function fixedItems(parts: Part[], here: Shortcut[], go: Go): Item[] {
  const permissions = session()?.permissions ?? {}
  const creatable = RESOURCES.filter(
    ({ permission, name, canCreate }) => canCreate !== false && permissions[permission ?? name]?.create,
  )
  const actions = here.filter(
    ({ keys, text }, n, all) =>
      !keys?.startsWith('g ') && keys !== 'Ctrl+K' && all.findIndex((other) => other.text === text) === n,
  )
  return [
    ...parts.flatMap(({ entries }) =>
      entries.map(({ to, text, keys }) => ({ id: to, text: t('go-to', { name: text }), keys, run: () => go(to) })),
    ),
    { id: '/me', text: t('go-to', { name: t('me') }), run: () => go('/me') },
    ...creatable.map(({ name, route, one }) => ({
      id: `new ${name}`,
      text: t('create-one', { one: t(one) }),
      run: () => go(`${route}/new`),
    })),
    ...actions.map(({ keys, text, run }, n) => ({ id: `do ${n}`, text, keys, run })),
  ]
}

/** The classes whose names match, to open and to create records. */
function useClassItems(searchText: string, go: Go): Item[] {
  // "New invoice" also finds the class of that name.
  const creating = t('create-one', { one: '' }).trim().toLowerCase()
  const [first = '', ...words] = searchText.split(' ')
  const name__icontains = first.toLowerCase() === creating ? words.join(' ') : searchText
  const { data } = useQuery({
    ...page('/api/object-classes/', `${new URLSearchParams({ name__icontains, ordering: 'name', limit: '5' })}`),
    enabled: searchText !== '',
  })
  const classes = searchText === '' ? [] : (data?.results ?? [])
  return [
    ...classes
      .filter((instance) => mayRecords(instance, 'create'))
      .map(({ alias, name }) => ({
        id: `new record ${alias}`,
        text: t('create-one', { one: `${name}` }),
        kind: t('records'),
        run: () => go(`/records/${alias}/new`),
      })),
    ...classes.map(({ alias, name }) => ({
      id: `/records/${alias}`,
      text: t('go-to', { name: `${name}` }),
      run: () => go(`/records/${alias}`),
    })),
  ]
}

/** The records, people and groups that the API finds. */
function useResultItems(searchText: string, go: Go): Item[] {
  const { data = [] } = useQuery(search(searchText, FOUND))
  const results = searchText === '' ? [] : data
  const names = useClassNames(results)
  return results.map((result) => ({
    id: `${result.type} ${result.id}`,
    text: result.label,
    kind: result.type === 'object_record' ? names.get(result.object_class ?? 0) : undefined,
    run: () => go(foundRoute(result)),
  }))
}

function useItems(parts: Part[], typed: string): Item[] {
  const go = useGo()
  const [here] = useState(shortcuts)
  const searchText = useSearchText(typed)
  const classItems = useClassItems(searchText, go)
  const resultItems = useResultItems(searchText, go)
  const items = fixedItems(parts, here, go)
  const text = typed.trim()
  const searchItem = {
    id: 'search',
    text: t('search.for', { text }),
    run: () => go(`/search?${new URLSearchParams({ text })}`),
  }
  return [
    ...items.filter((item) => item.text.toLowerCase().includes(typed.toLowerCase())),
    ...classItems.filter(({ id }) => items.every((item) => item.id !== id)),
    ...resultItems,
    ...(text === '' ? [] : [searchItem]),
  ]
}

export default function Palette({ parts, onClose }: { parts: Part[]; onClose: () => void }) {
  const [typed, setTyped] = useState('')
  const items = useItems(parts, typed)
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
                      choose(items[0])
                  }}
                />
              </TextField>
              <Menu
                // The focus stays in the input, so the keys must scroll the list.
                ref={(list: HTMLElement | null) => list?.setAttribute('tabindex', '0')}
                className={`${css.list} ${look.list}`}
                aria-label={t('palette')}
                items={items.slice(0, 60)}
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
