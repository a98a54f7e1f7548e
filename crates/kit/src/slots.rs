//! The modules' state of the process and of each build, found by type. The kit therefore does not depend on the types.

use std::any::{Any, TypeId, type_name};

/// A map from a type to the one value of that type.
#[derive(Default)]
pub struct Slots(Vec<(TypeId, Box<dyn Any + Send + Sync>)>);

impl Slots {
    /// Stores a value, in place of an earlier one of its type.
    pub fn insert<T: Send + Sync + 'static>(&mut self, value: T) {
        self.0.retain(|(type_id, _)| *type_id != TypeId::of::<T>());
        self.0.push((TypeId::of::<T>(), Box::new(value)));
    }

    /// Returns the value of a type, if there is one.
    pub fn find<T: 'static>(&self) -> Option<&T> {
        let (_, value) = self.0.iter().find(|(type_id, _)| *type_id == TypeId::of::<T>())?;
        value.downcast_ref()
    }

    /// Returns the value of a type; its default is stored if there is none.
    pub fn entry<T: Default + Send + Sync + 'static>(&mut self) -> &mut T {
        if self.find::<T>().is_none() {
            self.insert(T::default());
        }
        let entry = self.0.iter_mut().find(|(type_id, _)| *type_id == TypeId::of::<T>());
        entry.and_then(|(_, value)| value.downcast_mut()).expect("it was put there just now")
    }

    /// Returns the value of a type.
    ///
    /// # Panics
    /// If no module has stored one.
    pub fn get<T: 'static>(&self) -> &T {
        self.find().unwrap_or_else(|| panic!("no domain keeps a {}", type_name::<T>()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_found_by_its_type() {
        let mut slots = Slots::default();
        slots.insert(7_i64);
        slots.insert("seven");
        slots.insert(8_i64);
        assert_eq!((slots.get::<i64>(), slots.find::<&str>(), slots.find::<u8>()), (&8, Some(&"seven"), None));
    }
}
