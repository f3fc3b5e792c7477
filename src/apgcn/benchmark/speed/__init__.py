"""How fast is it, here?"""
